"""Recordings for the benchmark `outside`: pairs of earlier requests to plan on and later ones to judge by.

- Generator: services that do not stand still (`benchmarks.outside.drift`), in four blocks of time. Planned on
  the first k blocks, judged on the next. Once as they are, where the ledger's floor of a few copies a second
  serves nearly all, and once as a sample of one request in 100 of a busy service, where horizon and peak
  decide.
- Train Ticket: two days of traces of a public microservice application under injected faults. Every kind
  with 200 requests or more on a day: the second day by a plan of the first, and blocks of time within
  each day.
- Social network: 20 traces of one request, planned on ten and judged on ten: too few for any p99, shown
  as the data set has no more. CRISP's 15 traces are of 15 services, one each, so nothing can be planned
  on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.outside.drift import SCENARIOS, drifting_profile
from kwiken.model.profile.idempotence import kept_copyable, kept_single
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.otel.fit.fit import fit_profile, fit_profiles

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
TRAIN_TICKET = ("2023-01-29.json.gz", "2023-01-30.json.gz")
SOCIAL_NETWORK = "jaeger/socialnetwork-compose-post.json"
STORES = ("*:store_*", "*:write_*")  # the other calls run twice without harm, as their owner would say
NEXT_DAY = {"Train Ticket, day 2 by day 1": 1.0, "Train Ticket, day 2 by day 1, busy": 0.01}
GENERATED = {"generator": 1.0, "generator, busy": 0.01}
GENERATED_BLOCKS = 4
MIN_REQUESTS_OF_KIND = 200
MIN_REQUESTS_JUDGED = 100  # p99 of fewer is the slowest request
MAX_BLOCKS = 6
DAY_S = 86_400.0


@dataclass(frozen=True)
class Recording:
    """Requests of one kind, as pairs of those to plan on and those to judge by.

    Attributes:
        data_sets: by name of the data set: share of the service's requests that the recording is taken for.
        kind: name of the service or kind of requests.
        pairs: earlier and later requests, in order of time.
    """

    data_sets: Mapping[str, float]
    kind: str
    pairs: tuple[tuple[Profile, Profile], ...]


def recordings(*, quick: bool, services: int = 6) -> Iterator[Recording]:
    """All recordings whose data are there.

    Args:
        quick: True for one generated service of each scenario, and no Train Ticket.
        services: number of generated services of each scenario, if not quick.
    """
    yield from _generated(services=1 if quick else services)
    if (DATA / SOCIAL_NETWORK).exists():
        posts = kept_single(kept_copyable([fit_profile([DATA / SOCIAL_NETWORK])], ["*"]), STORES)
        yield Recording({"social network": 1.0}, "compose post", _blocks(posts[0], 2))
    if not quick and all((DATA / "train-ticket" / name).exists() for name in TRAIN_TICKET):
        yield from _train_ticket()


def _generated(*, services: int) -> Iterator[Recording]:
    for scenario in SCENARIOS:
        for seed in range(services):
            profile = drifting_profile(scenario, seed)
            yield Recording(GENERATED, profile.service, _blocks(profile, GENERATED_BLOCKS))


def _train_ticket() -> Iterator[Recording]:
    fits = fit_profiles([DATA / "train-ticket" / name for name in TRAIN_TICKET], every=True)
    for profile, kind in zip(fits.profiles, fits.kinds, strict=False):
        if not any(stage.reissuable for stage in profile.stages):
            continue  # only writes, which get no copies
        days = profile.started_s // DAY_S
        parts = [part_of(profile, np.flatnonzero(days == day)) for day in np.unique(days)]
        first, second = parts
        if first.requests >= MIN_REQUESTS_OF_KIND and second.requests >= MIN_REQUESTS_JUDGED:
            yield Recording(NEXT_DAY, kind.name, ((first, second),))
        for number, part in enumerate(parts, start=1):
            if part.requests >= MIN_REQUESTS_OF_KIND:
                blocks = min(MAX_BLOCKS, part.requests // MIN_REQUESTS_JUDGED)
                name = f"{kind.name}, day {number}"
                yield Recording({"Train Ticket, within a day": 1.0}, name, _blocks(part, blocks))


def _blocks(profile: Profile, number: int) -> tuple[tuple[Profile, Profile], ...]:
    """For every number of first blocks of time, the requests in them and those of the next block."""
    parts = np.array_split(np.argsort(profile.started_s, kind="stable"), number)
    return tuple(
        (part_of(profile, np.concatenate(parts[:k])), part_of(profile, parts[k])) for k in range(1, number)
    )

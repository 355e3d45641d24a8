"""Blame: whether the advice names the faulty service first, on public traces with injected faults.

Train Ticket (Nezha): two days, of which a list says which pod got which fault when. For every kind of
requests with `MIN_REQUESTS_OF_KIND` or more on a day, the requests that start in the minute after an
injection are explained beside all others of the day, as `kwiken advise --during` does. A fault counts for a
kind if it slowed that kind at all, by latencies and visits alone and not by any blame:

- three or more requests start in that minute, and at least half of them reach the faulty service;
- a one-sided Mann-Whitney test of their latencies against those of all requests that start neither within ten
  minutes after the injection nor in it says that they are slower, with p < 0.001: of about 500 tests chance
  alone passes one half. The share is given for p < 0.01 and p < 0.05 too, where chance passes more;
- their median is at least 1.2 times that of the others.

The name is right if it is the faulty service, its links, or one link of which it is an end. The rule and the
threshold of 0.001 were chosen on day 1; day 2 judges them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.harness import Row
from benchmarks.outside.outside_data import DATA
from kwiken.base.arrays import Bools
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profiles
from kwiken.tail.diagnosis.explanation import explain_time
from kwiken.tail.diagnosis.suspect import Suspect

DAYS = ("2023-01-29", "2023-01-30")
FOLDER = DATA / "train-ticket"
MIN_REQUESTS_OF_KIND = 100
MINUTE_S = 60.0
AFTER_S = 600.0  # after an injection, in which other requests do not count as typical
MIN_IN_MINUTE = 3
MIN_VISITS = 0.5  # of the minute's requests, that reach the faulty service
MAX_P = (1e-3, 1e-2, 5e-2)  # the first one judges
MIN_SLOWER = 1.2  # median of the minute over that of the others
HEAD = ("injected", "fault", "kind of requests", "requests", "median latency", "named first", "right")
TARGET = 80.0  # percent of the faults that slowed a kind
POD = re.compile(r"-[0-9a-f]+-[0-9a-z]{5}$")  # what Kubernetes adds to the name of a deployment


@dataclass(frozen=True)
class Fault:
    """An injected fault.

    Attributes:
        at_s: time of the injection, seconds since 1970.
        service: name of the faulty service.
        kind: kind of fault, such as `network_delay`.
    """

    at_s: float
    service: str
    kind: str


@dataclass(frozen=True)
class Case:
    """A fault that slowed requests of a kind, and what is named first.

    Attributes:
        day: day of the recording.
        fault: the fault.
        kind: kind of the requests.
        requests: number of requests in the minute.
        usual_ms: median latency of the others, milliseconds.
        then_ms: median latency in the minute, milliseconds.
        p_value: chance of such latencies, had the fault not slowed them.
        named: what is named first; None where nothing is in excess.
    """

    day: str
    fault: Fault
    kind: str
    requests: int
    usual_ms: float
    then_ms: float
    p_value: float
    named: Suspect | None

    @property
    def right(self) -> bool:
        """Whether the faulty service, its links or one of them is named."""
        return self.named is not None and self.fault.service in self.named.services


def faults(path: Path) -> list[Fault]:
    """Read the faults of one day; times without a zone are UTC, as those of the traces.

    Args:
        path: file of the data set.
    """
    hours = json.loads(path.read_text(encoding="utf-8"))
    return [
        Fault(
            datetime.fromisoformat(f"{each['inject_time']}+00:00").timestamp(),
            POD.sub("", each["inject_pod"]),
            each["inject_type"],
        )
        for hour in hours.values()
        for each in hour
    ]


def cases(day: str) -> Iterator[Case]:
    """All faults of one day that slowed a kind of requests.

    Args:
        day: such as `2023-01-29`.
    """
    listed = faults(FOLDER / f"{day}-faults.json")
    fits = fit_profiles([FOLDER / f"{day}.json.gz"], every=True)
    labels = {kind.label: kind.name for kind in fits.kinds}
    for profile in fits.profiles:
        if profile.requests < MIN_REQUESTS_OF_KIND or profile.origin is None:
            continue
        for fault in listed:
            since = profile.started_s - fault.at_s
            inside, others = (since >= 0) & (since < MINUTE_S), (since < 0) | (since >= AFTER_S)
            p_value = chance(profile, fault.service, inside, others)
            if p_value >= MAX_P[-1]:
                continue
            yield Case(
                day,
                fault,
                labels[profile.origin.kind],
                int(inside.sum()),
                float(np.median(profile.latency_ms[others])),
                float(np.median(profile.latency_ms[inside])),
                p_value,
                explain_time(profile, fault.at_s, fault.at_s + MINUTE_S).first,
            )


def chance(profile: Profile, service: str, inside: Bools, others: Bools) -> float:
    """Chance of the latencies of a fault's minute without the fault; 1 where the module's other rules fail.

    Args:
        profile: requests of one kind.
        service: the faulty service.
        inside: (n,) the requests of the minute.
        others: (n,) the requests to compare with.
    """
    if inside.sum() < MIN_IN_MINUTE:
        return 1.0
    reached = np.zeros(profile.requests, np.bool_)
    if profile.service_ms is not None and service in profile.service_names:
        reached |= profile.service_ms[:, profile.service_names.index(service)] > 0
    for place, link in enumerate(profile.link_names):
        if service in link and profile.link_ms is not None:
            reached |= profile.link_ms[:, place] > 0
    then, usual = profile.latency_ms[inside], profile.latency_ms[others]
    if reached[inside].mean() < MIN_VISITS or np.median(then) < MIN_SLOWER * np.median(usual):
        return 1.0
    return float(mannwhitneyu(then, usual, alternative="greater").pvalue)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    if not FOLDER.is_dir():
        print(f"blame: the traces are not there ({FOLDER})")
        return []
    wide = [case for day in DAYS[1 if quick else 0 :] for case in cases(day)]
    found = [case for case in wide if case.p_value < MAX_P[0]]
    for text in (f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD), *map(line, found)):
        print(text)
    rows = [_row(f"Train Ticket, {day}", [case for case in found if case.day == day]) for day in DAYS]
    rows += [
        _row(f"Train Ticket, {kind}", [case for case in found if case.fault.kind == kind])
        for kind in sorted({case.fault.kind for case in found})
    ]
    rows += [
        _row(f"Train Ticket, p below {p:g}", [case for case in wide if case.p_value < p]) for p in MAX_P[1:]
    ]
    return [row for row in [*rows, _row("Train Ticket, all", found, TARGET)] if row is not None]


def line(case: Case) -> str:
    """One case as a row of a table in Markdown.

    Args:
        case: a fault that slowed a kind.
    """
    when = f"{datetime.fromtimestamp(case.fault.at_s, UTC):%m-%d %H:%M:%S}"
    named = f"{case.named.name}, {case.named.excess_ms:.0f} ms" if case.named is not None else "nothing"
    fault = f"{case.fault.service} {case.fault.kind}"
    latency = f"{case.usual_ms:.0f} to {case.then_ms:.0f} ms"
    cells = (when, fault, case.kind, str(case.requests), latency, named, "yes" if case.right else "NO")
    return f"| {' | '.join(cells)} |"


def _row(name: str, found: list[Case], target: float | None = None) -> Row | None:
    if not found:
        return None
    right = 100 * sum(case.right for case in found) / len(found)
    return Row(
        name=f"{name}: {sum(case.right for case in found)} of {len(found)} named right",
        ours=right,
        unit="%",
        target=target,
        met=None if target is None else right >= target,
    )

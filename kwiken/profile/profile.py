"""The profile: what was learned of a service from its traces."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kwiken.arrays import Bools, Floats, Ints
from kwiken.plan import SpanMatch

OWN_TIME = " (own time)"  # how the name of a request's own time ends
WORTH_DIGITS = 6  # of an answer's worth, kept in JSON and hashed


@dataclass(frozen=True, kw_only=True)
class StageProfile:
    """What was learned of one stage; n requests, joint by row with the other stages of the profile.

    Attributes:
        name: of the stage.
        after: names of its parents.
        match: which spans it was learned from.
        calls_ms: (n, width): latency of each primary call, milliseconds; a fan-out has a column a shard.
            NaN where there was no such call. As the caller saw it, without any reissue.
        censored: (n, width): the call was cancelled, so its latency is at least what stands in `calls_ms`.
        busy_ms: mean time that a replica worked on one call; None where it was not measured.
        busy_variation: standard deviation of that time as a ratio to its mean; None where it was not
            measured.
        replicas: how many were seen to take calls; None where the traces do not tell.
        reissuable: whether a copy of a call may be sent.
        pairs_ms: (m, 2): latency of calls that had a copy, and of that copy from its own start; None where no
            copies were seen.
        pairs_cut: (m, 2): which of these were cut short, so took at least as long.
        guesses_ms: (m, 2): latency of late calls, and what copies of them would have taken by what they
            worked (`guess_copies`); None where that is not known.
        worth: (n, width): what each primary call's answer was worth, as a weight beside the other shards of
            its request: 1 for the shard with the top hit and 0 for the others, say. NaN where it is not
            known; None where it never is: then every shard is worth the same.
        threads: most threads that a call of a late request can use.
        asked: (n, width): which of `replica_names` each primary call went to; -1 where it is not known. None
            where the traces do not tell.
        replica_names: of the replicas that took calls.
    """

    name: str
    after: tuple[str, ...] = ()
    match: SpanMatch
    calls_ms: Floats
    censored: Bools
    busy_ms: float | None = None
    busy_variation: float | None = None
    replicas: int | None = None
    reissuable: bool = True
    pairs_ms: Floats | None = None
    pairs_cut: Bools | None = None
    guesses_ms: Floats | None = None
    worth: Floats | None = None
    threads: int = 1
    asked: Ints | None = None
    replica_names: tuple[str, ...] = ()

    @property
    def latency_ms(self) -> Floats:
        """(n,): latency of the slowest call of each request, milliseconds; 0 where the stage was skipped."""
        return np.asarray(np.fmax.reduce(self.calls_ms, axis=1, initial=0.0))

    @property
    def own_time(self) -> bool:
        """Whether this is the request's own time: what no stage explains, and nothing can speed up."""
        return not self.reissuable and self.name.endswith(OWN_TIME)

    @property
    def visited(self) -> Bools:
        """(n,): whether the request called the stage at all."""
        return np.asarray(~np.isnan(self.calls_ms).all(axis=1))

    @property
    def visit_share(self) -> float:
        """Share of the requests that called the stage."""
        return float(self.visited.mean()) if len(self.calls_ms) else 0.0

    @property
    def calls_per_request(self) -> float:
        """Mean number of primary calls per request, skipped visits included."""
        return float((~np.isnan(self.calls_ms)).sum() / max(1, len(self.calls_ms)))


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What was learned of a service.

    Attributes:
        service: its name.
        stages: parents before children.
        latency_ms: (n,): latency of whole requests, milliseconds.
        started_s: (n,): when they started, seconds since 1970.
        counts: what was read and what was set aside while learning, by kind; never silently dropped.
        classes: (n,) which of `class_names` each request is of; None where they are all of one kind.
        class_names: of the kinds of requests.
    """

    service: str
    stages: tuple[StageProfile, ...]
    latency_ms: Floats
    started_s: Floats
    counts: Mapping[str, int] = field(default_factory=dict)
    classes: Ints | None = None
    class_names: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.latency_ms)

    def stage(self, name: str) -> StageProfile:
        """The stage of that name; KeyError when there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)

    @property
    def digest(self) -> str:
        """`sha256:` and the hash of all that was learned, to the microsecond, as its JSON keeps it."""
        total = hashlib.sha256(self.service.encode())
        for stage in self.stages:
            total.update(repr((stage.name, stage.after, stage.busy_ms, stage.reissuable)).encode())
            total.update(to_microseconds(stage.calls_ms).tobytes())
            total.update(np.ascontiguousarray(stage.censored).tobytes())
            if stage.pairs_ms is not None and stage.pairs_cut is not None:
                total.update(to_microseconds(stage.pairs_ms).tobytes())
                total.update(np.ascontiguousarray(stage.pairs_cut).tobytes())
            if stage.guesses_ms is not None:
                total.update(to_microseconds(stage.guesses_ms).tobytes())
            if stage.worth is not None:
                total.update(b"worth" + np.ascontiguousarray(np.round(stage.worth, WORTH_DIGITS)).tobytes())
            if stage.asked is not None:
                total.update(repr(stage.replica_names).encode() + np.ascontiguousarray(stage.asked).tobytes())
            if stage.threads > 1:
                total.update(f"threads {stage.threads}".encode())
        total.update(to_microseconds(self.latency_ms).tobytes())
        if self.classes is not None:
            total.update(repr(self.class_names).encode() + np.ascontiguousarray(self.classes).tobytes())
        return f"sha256:{total.hexdigest()}"


def to_microseconds(milliseconds: Floats) -> Floats:
    """The same times, rounded to whole microseconds, still in milliseconds; contiguous."""
    return np.ascontiguousarray(np.round(milliseconds, 3))

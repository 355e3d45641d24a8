"""Profiles of a stage whose replicas pause, from an exact simulation of one call after another."""

from __future__ import annotations

import numpy as np

from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile

PAUSE_MS = 100.0
PAUSED = 0.02  # share of its time that a replica stands still
REPLICAS = 3
WORK_MS, REST_MS, VARIATION = 2.0, 1.0, 0.3


class PausingReplica:
    """One call at a time; still for `PAUSE_MS` now and then, a share `paused` of its time."""

    def __init__(self, rng: np.random.Generator, paused: float) -> None:
        self.rng, self.paused = rng, paused
        self.free = self.goes_on = 0.0
        self.stops = self.next_stop()
        self.flight: list[tuple[float, float]] = []  # (came, answer)

    def next_stop(self) -> float:
        if not self.paused:
            return np.inf
        between_ms = PAUSE_MS * (1 - self.paused) / self.paused
        return self.goes_on + float(self.rng.exponential(between_ms))

    def score(self, now: float) -> float:
        """As a picker judges it: by the age of the oldest call, and how many there are."""
        self.flight = [(arrival, answer) for arrival, answer in self.flight if answer > now]
        oldest = min((arrival for arrival, _ in self.flight), default=now)
        return max(WORK_MS + REST_MS, now - oldest) * (len(self.flight) + 1)

    def serve(self, now: float, work_ms: float) -> float:
        """Time of its answer."""
        end = max(now, self.free) + work_ms
        while self.stops < end:
            self.goes_on = self.stops + PAUSE_MS
            if self.goes_on > max(now, self.free):  # it stood still while the call waited, or was served
                end += self.goes_on - max(now, self.free, self.stops)
            self.stops = self.next_stop()
        self.free = end
        self.flight.append((now, end + REST_MS))
        return end + REST_MS


def pausing_profile(
    rate_per_s: float, seconds: float, seed: int, *, paused: float = PAUSED, count: int = REPLICAS
) -> Profile:
    """Profile of one stage as traces would give it, each call at the better of two replicas.

    Args:
        rate_per_s: requests a second.
        seconds: length of the recording.
        seed: seed of all draws.
        paused: share of its time that each replica stands still.
        count: number of replicas.
    """
    rng = np.random.default_rng(seed)
    calls = int(rate_per_s * seconds)
    arrivals = np.cumsum(rng.standard_exponential(calls)) * 1e3 / rate_per_s
    spread = np.log1p(VARIATION**2)
    work_ms = WORK_MS * rng.lognormal(-spread / 2, np.sqrt(spread), calls)
    replicas = [PausingReplica(child, paused) for child in rng.spawn(count)]
    one = rng.integers(count, size=calls)
    other = (one + 1 + rng.integers(max(1, count - 1), size=calls)) % count
    asked, latency_ms = np.empty(calls, np.int64), np.empty(calls)
    coming = zip(arrivals.tolist(), work_ms.tolist(), one.tolist(), other.tolist(), strict=True)
    for call, (now, work, *choices) in enumerate(coming):
        asked[call] = min(choices, key=lambda choice: replicas[choice].score(now))
        latency_ms[call] = replicas[asked[call]].serve(now, work) - now
    stage = StageProfile(
        name="a",
        match=SpanMatch(service="shop-a", operation="a"),
        calls_ms=latency_ms[:, None],
        censored=np.zeros((calls, 1), np.bool_),
        busy_ms=WORK_MS,
        busy_variation=VARIATION,
        replicas=count,
        asked=asked[:, None],
        replica_names=tuple(f"a-{number}" for number in range(count)),
    )
    return Profile(service="shop", stages=(stage,), latency_ms=latency_ms, started_s=1e9 + arrivals / 1e3)

"""Admission of requests: requests that are shed under load, and the capacity that is left for copies.

Pure: arrivals and departures with their times in, decisions out.

Three signals of overload are combined (DAGOR, SoCC 2018, and Breakwater, OSDI 2020, watch delay as well;
throughput alone cannot tell idle from stuck):

1. the number of requests inside, against the capacity;
2. the time that recent requests took, against the time they were allowed;
3. the time that requests wait for a busy event loop.

Under rising load copies stop first, then requests are turned away, lowest priority first.

The capacity of the replicas is learned. A full replica refuses every call at once, whatever its priority, so
that neither delay nor the number of requests inside reveals it. Therefore a request that found every replica
full limits the capacity for its priority to the number of requests inside at that moment, and each request
that is served raises it a little, as TCP probes the capacity of a path. Capacity that the lower priorities
may not use is reserved for the higher ones (trunk reservation in telephone networks).
"""

from __future__ import annotations

from collections import Counter
from math import exp, inf

import msgspec

from kwiken.runtime.wire.transport.base import MAX_PRIORITY

# Requests by which one served request raises the capacity: so little that only a few in a hundred find the
# replicas full again. The step grows with the time since the last full replica, so that capacity that
# returns, for example with a restarted replica, is found within about ten request durations.
GROWTH = 0.02
ROUNDING = 1e-9  # so that a share of the capacity, rounded down, is not below the threshold it was made from


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hard limits of one executor, whatever the plan says.

    Attributes:
        deadline_ms: deadline of a request that names none, milliseconds.
        always: number of requests at once below which slowness alone turns none away.
        gain: weight of one request in the moving averages of request times, 0 to 1.
        wait_share: share of a request's deadline that, spent waiting for the event loop, counts as full load.
        least_wait_s: wait for the event loop that never counts as full load, seconds, however short the
            deadline is.
        calm_below: load, from 0 to 1, from which on no copies are sent.
        shed_low_at: load, from 0 to 1, from which on requests of priority -1 are turned away; each lower
            priority is turned away sooner by `shed_step`.
        shed_at: load, from 0 to 1, from which on requests of priority 0 are turned away.
        shed_high_at: load, from 0 to 1, from which on requests of the highest priority are turned away; each
            lower priority, down to 1, is turned away sooner by `shed_step`.
        shed_step: difference in load, from 0 to 1, between two adjacent priorities.
        least_retry_after_s: shortest retry delay given to a request that is turned away, seconds.
        most_retry_after_s: longest retry delay given to a request that is turned away, seconds.
        retry_share: retries that one success earns, as a share of a retry.
        retry_burst: largest number of retries in a row without a success.
    """

    deadline_ms: float = 10_000.0
    requests: int = 1024
    always: int = 16
    gain: float = 0.05
    wait_share: float = 0.1
    least_wait_s: float = 0.05
    calm_below: float = 0.5
    shed_low_at: float = 0.7
    shed_at: float = 0.85
    shed_high_at: float = 1.0
    shed_step: float = 0.01
    least_retry_after_s: float = 0.1
    most_retry_after_s: float = 10.0
    retry_share: float = 0.1
    retry_burst: int = 32

    def shed_threshold(self, priority: int) -> float:
        """Load, from 0 to 1, from which on requests of this priority are turned away."""
        if priority == 0:
            return self.shed_at
        if priority > 0:
            return self.shed_high_at - self.shed_step * max(0, MAX_PRIORITY - priority)
        return self.shed_low_at + self.shed_step * (max(priority, -MAX_PRIORITY) + 1)


class Admission:
    """Counts requests and measures the load.

    Args:
        limits: largest number of requests, and loads at which copies and requests are given up.

    Attributes:
        inside: number of requests that were admitted and are not done.
        room: present capacity, as a number of concurrent requests.
        shed: number of requests turned away so far, by priority.
    """

    __slots__ = (
        "_inside_when_measured",
        "_limits",
        "_mean_took_s",
        "_mean_use",
        "_served",
        "_updated_at",
        "_wait_s",
        "inside",
        "room",
        "shed",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.inside = 0
        self.room = float(limits.requests)
        self._served = 0  # requests since the last one that found every replica full
        self._wait_s = 0.0
        self._inside_when_measured = 0
        self.shed: Counter[int] = Counter()
        self._mean_took_s = 0.0
        self._mean_use = 0.0
        self._updated_at = 0.0

    def enter(self, now: float, priority: int, allowed: float | None = None) -> float | None:
        """Admit a request and return None, or turn it away and return the delay before a retry, seconds.

        Args:
            now: present time, seconds.
            priority: priority of the request; 0 is normal, higher is more important.
            allowed: time that the request may take, seconds; None for the default of the limits.
        """
        again = self.refusal(now, priority, allowed)
        if again is None:
            self.inside += 1
        return again

    def refusal(self, now: float, priority: int, allowed: float | None = None) -> float | None:
        """Judge a request like `enter` before its body is read; does not count the request as inside."""
        limits = self._limits
        if self.effective_load(now, allowed) < limits.shed_threshold(priority):
            return None
        self.count_shed(priority)
        return min(max(2 * self._mean_took_s, limits.least_retry_after_s), limits.most_retry_after_s)

    def count_shed(self, priority: int) -> None:
        """Count a request that was turned away, here or by what stands before admission."""
        self.shed[max(-MAX_PRIORITY, min(MAX_PRIORITY, priority))] += 1

    def leave(self, now: float, *, took: float, allowed: float) -> None:
        """Record the end of a request that was admitted.

        Args:
            now: present time, seconds.
            took: duration of the request, seconds.
            allowed: time that the request was allowed to take, seconds.
        """
        self.inside -= 1
        use = took / allowed if allowed > 0 else 1.0
        gain = self._limits.gain
        self._mean_use += gain * (min(1.0, use) - self._mean_use)
        self._mean_took_s += gain * (took - self._mean_took_s)
        self._updated_at = now
        self._served += 1
        self.room = min(self._limits.requests, self.room + GROWTH * (1.0 + self._served / self.room))

    def leave_full(self, priority: int) -> None:
        """Record the end of a request that was admitted and found every replica full.

        Its duration is not used: such requests end at once, and most quickly where the load is highest.
        """
        self.inside -= 1
        self._served = 0
        # The capacity at which this priority is turned away from the present number of requests on.
        held = self.inside / (self._limits.shed_threshold(priority) + ROUNDING)
        # Below the limit by a little at least: only then do few requests count against what was found.
        held = min(held, self._limits.requests * (1 - ROUNDING))
        self.room = min(self.room, max(1.0, held))

    def leave_unserved(self) -> None:
        """Record the end of a request that was admitted and never started; it tells nothing of the load."""
        self.inside -= 1

    def note_line(self, line_s: float) -> None:
        """Record the present wait of a request for the event loop, in seconds, as measured."""
        self._wait_s = line_s
        self._inside_when_measured = self.inside

    @property
    def line_s(self) -> float:
        """Expected wait of a new request for the event loop, seconds; grows with the arrivals since measured.

        Each step of the loop serves all requests inside; a few more or fewer of them make no difference.
        """
        always = max(1, self._limits.always)
        return self._wait_s * max(1.0, (self.inside + always) / (self._inside_when_measured + always))

    def load(self, now: float, allowed: float | None = None) -> float:
        """Load from 0 (idle) to 1 (full), for requests allowed that many seconds; None for the default."""
        use = self._mean_use
        age_s = now - self._updated_at
        # Old measurements decay: else a high one could shut out the requests that would correct it.
        if age_s > 1.0 and use:
            use *= exp(-(age_s - 1.0))
        return max(use, self.inside / self.room, self._wait_load(allowed))

    def _wait_load(self, allowed: float | None) -> float:
        """Wait for the event loop as a share of the longest acceptable wait, 0 to 1."""
        limits = self._limits
        share = limits.wait_share * (limits.deadline_ms / 1000 if allowed is None else allowed)
        return min(1.0, self.line_s / max(share, limits.least_wait_s))

    def effective_load(self, now: float, allowed: float | None = None) -> float:
        """Load with which decisions are made: slowness of a few requests counts as none.

        The wait for the event loop always counts, and so does a capacity that was found to be lower.
        """
        if self.inside >= self._limits.always:
            return self.load(now, allowed)
        occupancy = self.inside / self.room if self.room < self._limits.requests else 0.0
        return max(occupancy, self._wait_load(allowed))

    def spare_capacity(self, now: float) -> float:
        """Extra work, as a share of the present work, that keeps the load below the guard's threshold.

        It falls as the load rises, is 0 from the threshold on, and infinite where nothing is known to run.
        """
        load = self.effective_load(now)
        return max(0.0, self._limits.calm_below / load - 1.0) if load > 0 else inf

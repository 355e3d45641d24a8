"""Race of a block of calls with their copies, vectorised over the calls.

Every latency is known beforehand and no call waits for another, so all calls take the same step at once. The
runtime's race (`kwiken.runtime.decisions.race`) decides one live call; the queueing simulator's
(`kwiken.tail.queueing.simulator.race`) has queues; the curves (`kwiken.tail.curves.fan_out`) compute only
moments. tests/tail/simulation/test_races.py holds the four equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kwiken.base.arrays import Bools, Floats
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.copies import Useless, correlated_copies

Ints = NDArray[np.int64]


class CopySource(Protocol):
    """Latencies of copies, and the coins that decide which calls may have copies."""

    def copies(self, which: Ints) -> Floats:
        """(m,): latencies of copies of these calls, each from its own start, milliseconds.

        Args:
            which: (m,) indices of calls in the flattened block.
        """

    def coins(self, which: Ints) -> Floats:
        """(m,): uniform values from 0 to 1; a call may have copies where its value is below the probability.

        Args:
            which: (m,) indices of calls in the flattened block; none is asked for twice.
        """


@dataclass(frozen=True)
class CopyDraws:
    """Source of the copies and coins of a block of requests: common random numbers for all policies.

    A draw is a function of its call's number and of nothing else. So two plans give different latencies only
    where their policies differ, and numbers are computed for late calls only.

    Attributes:
        key: number that tells the draws of one stage and run from those of others.
        numbers: (k,) number of each request of the block among all requests.
        width: number of calls of a request, 1 or more.
        rho: correlation of a copy's normal score with its call's, 0 or more and below 1.
        calls: (k, width) latencies of the calls before any race, milliseconds; None for independent copies.
        useless: probability that a copy is of no use, by the latency of its call.
    """

    distribution: EmpiricalDistribution
    key: int
    numbers: Ints
    width: int
    rho: float = 0.0
    calls: Floats | None = None
    useless: Useless = ()
    _sends: Iterator[int] = field(default_factory=lambda: count(2), repr=False, compare=False)

    def copies(self, which: Ints) -> Floats:
        """See `CopySource`; a second copy of a call is drawn anew."""
        levels = self._levels(which, next(self._sends))
        if self.calls is None:
            return self.distribution.quantile(levels)
        calls, normal = self.calls.ravel()[which], ndtri(levels)
        return correlated_copies(self.distribution, calls, normal, self.rho, self.useless)

    def coins(self, which: Ints) -> Floats:
        """See `CopySource`."""
        return self._levels(which, 1)

    def _levels(self, which: Ints, stream: int) -> Floats:
        """(m,): uniform values from 0 to 1 by the calls' numbers (finaliser of SplitMix64, Steele 2014)."""
        number = self.numbers[which // self.width] * self.width + which % self.width
        mixed = (number.astype(np.uint64) << np.uint64(5)) + np.uint64(stream)
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.key)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


class _SentCopies(NamedTuple):
    """Copies sent at one step.

    Attributes:
        calls: (m,) indices of their calls in the flattened block.
        age_ms: age of the calls, milliseconds: one for all, or (m,).
        by_lateness: whether the copies were sent because the requests were late.
    """

    calls: Ints
    age_ms: Floats | float
    by_lateness: bool


class _LateCalls(NamedTuple):
    """Calls without an answer at an age of the reissue policy.

    Attributes:
        calls: (m,) indices of the calls in the flattened block.
        chance: probability that each gets a copy at that age, given the coins drawn before.
    """

    calls: Ints
    age_ms: float
    chance: float


class BlockRace:
    """Race of the calls of a block with their copies.

    Args:
        calls: (k, width) latencies of the calls of k requests, milliseconds; NaN for no call. Updated in
            place.
        source: latencies of copies, and coins.

    Attributes:
        ends: (k, width) latency of each call with the copies sent so far, milliseconds: the array `calls`.
    """

    def __init__(self, calls: Floats, source: CopySource) -> None:
        self.ends = calls
        self._flat = calls.reshape(-1)
        self._source = source
        self._late_at: Floats | None = None
        self._copies_left: NDArray[np.int16] | None = None  # by call; None where ages alone bound the copies
        self._heads: Bools | None = None  # by call: whether its coin allows copies; None before it is thrown
        self._sent: list[_SentCopies] = []
        self._late: list[_LateCalls] = []

    def late_at(self, late_ms: Floats) -> None:
        """Set the age of the stage, (k,) ms, at which each request is late and its calls get copies."""
        self._late_at = np.repeat(late_ms, self.ends.shape[1])

    def run(self, policy: Reissue | None) -> None:
        """Send the copies of a reissue policy and those of late requests, in order of age.

        There are two cases:
        1. Only a policy: its copies go at its ages.
        2. Late requests too: copies for lateness go between those ages, and all count against the policy's
           number of copies per call (1 without a policy).
        """
        if self._late_at is None:
            for age in _ages(policy):
                self._send_at_age(age, policy)
            return
        self._copies_left = np.full(len(self._flat), policy.copies if policy is not None else 1, np.int16)
        for age in _ages(policy):
            self._send_late(before=age)
            self._send_at_age(age, policy)
        self._send_late(before=math.inf)

    def _send_at_age(self, age: float, policy: Reissue | None) -> None:
        """Send the copies due at one age of the policy; one coin decides for all copies of a call."""
        assert policy is not None
        due = self._flat > age
        if self._copies_left is not None:
            due &= self._copies_left > 0
        if self._heads is not None:
            due &= self._heads
        late = np.flatnonzero(due)
        if policy.probability < 1 and self._heads is None:
            self._late.append(_LateCalls(late, age, policy.probability))
            late = late[self._source.coins(late) < policy.probability]
            self._heads = np.zeros(len(self._flat), np.bool_)
            self._heads[late] = True
        else:
            self._late.append(_LateCalls(late, age, 1.0))
        self._send(late, age, by_lateness=False)

    def _send_late(self, *, before: float) -> None:
        """Send the copies of calls whose requests become late before an age."""
        assert self._late_at is not None
        assert self._copies_left is not None
        late = (self._late_at < before) & (self._flat > self._late_at) & (self._copies_left > 0)
        due = np.flatnonzero(late)
        self._send(due, self._late_at[due], by_lateness=True)
        self._late_at[due] = math.inf  # each call gets one copy for lateness

    def _send(self, calls: Ints, age: Floats | float, *, by_lateness: bool) -> None:
        if not len(calls):
            return
        self._flat[calls] = np.minimum(self._flat[calls], age + self._source.copies(calls))
        if self._copies_left is not None:
            self._copies_left[calls] -= 1
        self._sent.append(_SentCopies(calls, age, by_lateness))

    def sent_before(self, stop_ms: Floats | None) -> tuple[Ints, Ints]:
        """(k,) number of copies of the reissue policy, and (k,) of late requests, sent before the stop.

        Args:
            stop_ms: (k,) time of the stop, milliseconds; None where the stage waits for all calls.
        """
        none: Ints = np.broadcast_to(0, len(self.ends))
        by_policy, by_lateness = none, none
        for sent in self._sent:
            number = self._count(sent.calls, sent.age_ms, stop_ms)
            if sent.by_lateness:
                by_lateness = number if by_lateness is none else np.add(by_lateness, number, out=number)
            else:
                by_policy = number if by_policy is none else np.add(by_policy, number, out=number)
        return by_policy, by_lateness

    def _count(self, calls: Ints, age_ms: Floats | float, stop_ms: Floats | None) -> Ints:
        """(k,): number of these calls in each request, whose age comes before the stop if there is one."""
        rows, width = self.ends.shape
        row = calls // width if width > 1 else calls
        if stop_ms is not None:
            row = row[stop_ms[row] > age_ms]
        return np.bincount(row, minlength=rows)

    def expected_before(self, stop_ms: Floats | None) -> Floats:
        """(k,): mean number of copies of the reissue policy before the stop, over their coins.

        Exact for one copy a call, since whether a call is late does not depend on its own coin. Further
        copies count as sent, given the coins as drawn.

        Args:
            stop_ms: (k,) time of the stop, milliseconds; None where the stage waits for all calls.
        """
        expected: Floats | None = None
        for late in self._late:
            counted = np.multiply(
                self._count(late.calls, late.age_ms, stop_ms), late.chance, dtype=np.float64
            )
            expected = counted if expected is None else np.add(expected, counted, out=expected)
        return np.broadcast_to(0.0, len(self.ends)) if expected is None else expected


def _ages(policy: Reissue | None) -> Iterator[float]:
    """Ages of a call, milliseconds, at which its copies may be sent."""
    if policy is not None:
        yield from (copy * policy.after_ms for copy in range(1, policy.copies + 1))

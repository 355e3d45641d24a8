"""Replay of one stage under a plan: copies, threads and stop rule of its calls, and the latency that results.

A call's copy is sent at the earlier of two times: the age in the stage's reissue policy, and the time at
which its request becomes late (Kwiken section 5.5's global reissue: `min(T_s, max(0, T_z - start))`). A call
that starts late runs with more threads. The stop rule of a fan-out is applied to the latencies after copies
and threads; a copy due after the stop is never sent. The time that an answer lay at the gateway before it was
read is added after the race, since the gateway reads the copy's answer as late.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Bools, Floats
from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy, StagePlan
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import StageProfile, complete_calls
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.copy_correlation import known_correlation, useless_bands
from kwiken.tail.simulation.block_race import BlockRace, CopyDraws

Rows = NDArray[np.int64]
Ints = NDArray[np.int64]
MAX_CELLS = 1 << 21  # calls of one stage in memory at once


@dataclass(frozen=True)
class StageOutcome:
    """Outcome of a stage in some requests.

    Attributes:
        latency_ms: (k,) latency of the stage, milliseconds.
        copies: (k,) number of copies sent by its reissue policy, with the coins drawn.
        expected: (k,) mean number of such copies over the coins: late calls times their probability of a
            copy.
        late_copies: (k,) number of copies sent because the request was late.
        late_work: (k,) extra work of threads on late calls, in units of one call's work.
        lost: (k,) share of the stage's utility in shards that had not answered at the stop.
        late: (k,) number of calls that started late.
    """

    latency_ms: Floats
    copies: Ints
    expected: Floats
    late_copies: Ints
    late_work: Floats
    lost: Floats
    late: Ints

    @classmethod
    def joined(cls, latency_ms: Floats, parts: list[StageOutcome]) -> StageOutcome:
        """Outcomes of requests one after another as one; those of a single part are not copied.

        Args:
            latency_ms: (k,) array whose slices are the latencies of the parts, milliseconds.
        """
        if len(parts) == 1:
            return parts[0]
        names = [field.name for field in fields(cls) if field.name != "latency_ms"]
        return cls(latency_ms, *(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class LateCalls(NamedTuple):
    """Calls of some requests that are older than an age, with what is drawn for them.

    Attributes:
        which: (m,) indices of the calls in the flattened block of the requests.
        copies_ms: (m,) latencies of copies, milliseconds.
        coins: (m,) uniform values; a call gets a copy where its value is below the probability.
    """

    from_ms: float
    which: Ints
    calls_ms: Floats
    copies_ms: Floats
    coins: Floats


class StageReplay:
    """Replay of one stage: its calls, with cancelled ones filled in, and the distribution of a copy.

    Args:
        share: cost of its calls, as a share of an average request's cost.
        rng: random generator for copies, coins and latencies of cancelled calls.
        copy_correlation: correlation of a copy's normal score with its call's, 0 or more and below 1; None to
            estimate it from the stage's profile.
        by_row: whether a recorded request has the same draws wherever it is replayed, rather than draws by
            its position among those replayed.
    """

    def __init__(
        self,
        stage: StageProfile,
        share: float,
        rng: np.random.Generator,
        *,
        copy_correlation: float | None = None,
        races: bool = True,
        by_row: bool = False,
    ) -> None:
        self.name, self.after = stage.name, stage.after
        raced = stage.without_lag()
        distribution = (
            raced.distribution if races or stage.censored.any() else EmpiricalDistribution(np.empty(0))
        )
        self.calls_ms = complete_calls(raced, distribution, rng)
        self._stage = stage
        self._lag_ms = stage.lag_ms
        self._each = (
            None if np.isnan(self.calls_ms).any() else self.calls_ms.shape[1]
        )  # calls of every request
        self._distribution = distribution
        self._races = races and len(distribution) > 0
        self._rho = known_correlation(raced, distribution, copy_correlation) if self._races else 0.0
        self._useless = useless_bands(stage, copy_correlation)
        self._weights = utility_shares(stage.calls_ms, stage.worth)
        self._by_row, self._key = by_row, int(rng.integers(1 << 63))
        self.cost = share / stage.calls_per_request if stage.calls_per_request else 0.0

    def alone(self, rows: Rows, out: Floats) -> Floats:
        """(k,): latency of the stage in these requests without any plan, milliseconds: the array `out`.

        Args:
            rows: (k,) indices of requests.
            out: (k,) array to write to, milliseconds.
        """
        return np.take(self._alone, rows, out=out, mode="clip")  # other modes take a fresh array

    def calls(self, rows: Rows) -> int:
        """Number of calls of these requests.

        Args:
            rows: (k,) indices of requests.
        """
        return self._each * len(rows) if self._each is not None else int(self._count[rows].sum())

    def late_calls(self, rows: Rows, from_ms: float) -> LateCalls | None:
        """Calls older than an age, with what is drawn for them; None for more calls than `MAX_CELLS`.

        Args:
            rows: (k,) indices of requests, replayed from the first on.
            from_ms: age, milliseconds, 0 or more.
        """
        if not self._races or len(rows) * self.calls_ms.shape[1] > MAX_CELLS:
            return None
        calls = np.take(self.calls_ms, rows, axis=0)
        which = np.flatnonzero(calls.ravel() > from_ms)
        draws = self._draws(np.arange(len(rows)), calls)
        return LateCalls(from_ms, which, calls.ravel()[which], draws.copies(which), draws.coins(which))

    def raced_late(self, rows: Rows, late: LateCalls, policy: Reissue) -> Floats:
        """(k,): latency under a policy of one copy a call, milliseconds, as `play` finds it.

        Args:
            rows: (k,) indices of the requests that the late calls are of.
            late: calls older than an age that the policy's is not below.
        """
        ends = np.take(self.calls_ms, rows, axis=0)
        sent = (late.calls_ms > policy.after_ms) & (late.coins < policy.probability)
        ends.ravel()[late.which[sent]] = np.minimum(
            late.calls_ms[sent], policy.after_ms + late.copies_ms[sent]
        )
        return np.asarray(np.fmax.reduce(self._read(ends, rows), axis=1, initial=0.0))

    def raced(self, policy: Reissue | None) -> Floats:
        """(n, width): latency of every call when it races its copies, milliseconds; NaN for no call.

        Args:
            policy: reissue policy; None for no copies.
        """
        ends = self.calls_ms.copy()
        block = max(1, MAX_CELLS // ends.shape[1])
        for at in range(0, len(ends), block):
            rows = np.arange(at, min(at + block, len(ends)))
            race = BlockRace(ends[rows], self._draws(rows, ends[rows]))
            if self._races:
                race.run(policy)
            ends[rows] = self._read(race.ends, rows)
        return ends

    def play(
        self,
        rows: Rows,
        plan: StagePlan,
        start_ms: Floats | None,
        *,
        alone_ms: Floats | None = None,
        first: int = 0,
    ) -> StageOutcome:
        """Replay requests under a plan, in blocks that bound the memory.

        Args:
            rows: (k,) indices of requests.
            start_ms: (k,) age of the requests when the stage starts, milliseconds; None for 0.
            alone_ms: (k,) latencies that `alone` finds, milliseconds, which those of the outcome overwrite;
                None to find them here.
            first: number of the first of these requests, which tells its draws from those of others.
        """
        block = max(1, MAX_CELLS // self.calls_ms.shape[1])
        latency = self.alone(rows, np.empty(len(rows))) if alone_ms is None else alone_ms
        parts = []
        for at in range(0, max(1, len(rows)), block):
            part = slice(at, at + block)
            start = None if start_ms is None else start_ms[part]
            parts.append(self._play_block(rows[part], plan, start, latency[part], first + at))
        return StageOutcome.joined(latency, parts)

    def _play_block(
        self, rows: Rows, plan: StagePlan, start_ms: Floats | None, latency_ms: Floats, first: int
    ) -> StageOutcome:
        # Arrays as long as a block are fresh pages to the system, which cost more than what is computed in
        # them: what is zero throughout takes none, and what is no longer needed is overwritten.
        late_work = lost = np.broadcast_to(0.0, len(rows))
        late_calls: Ints = np.broadcast_to(0, len(rows))
        single = self.calls_ms.shape[1] == 1
        alone = single and self._lag_ms is None  # the latency without a plan is that of the only call
        calls = latency_ms[:, None] if alone else np.take(self.calls_ms, rows, axis=0)
        numbers = rows if self._by_row else np.arange(first, first + len(rows))
        race = BlockRace(calls, self._draws(numbers, calls))
        if plan.catch_up is not None:
            start = np.zeros(len(rows)) if start_ms is None else start_ms
            if plan.catch_up.threads > 1:
                late_work = self._speed_up(race, plan.catch_up, start, self._count[rows])
            late = start >= plan.catch_up.after_ms
            late_calls = late * self._count[rows]
            if plan.catch_up.reissue and self._races:
                race.late_at(np.maximum(0.0, plan.catch_up.after_ms - start))
        if self._races:
            race.run(plan.reissue)
        ends = self._read(race.ends, rows)
        if plan.partial is not None:
            latency_ms[:] = stop_times(ends, self._count[rows], plan.partial)
            lost = lost_utility(ends, latency_ms, self._weights, rows)
        elif single:
            np.fmax(ends[:, 0], 0.0, out=latency_ms)
        else:
            np.fmax.reduce(ends, axis=1, initial=0.0, out=latency_ms)
        stop = latency_ms if plan.partial is not None else None
        copies, late_copies = race.sent_before(stop)
        expected = race.expected_before(stop)
        return StageOutcome(latency_ms, copies, expected, late_copies, late_work, lost, late_calls)

    @cached_property
    def _alone(self) -> Floats:
        """(n,): latency of the stage in each request without any plan, milliseconds."""
        ends = self._read(self.calls_ms, slice(None))
        if self._each == 1:
            return ends[:, 0]
        return np.asarray(np.fmax.reduce(ends, axis=1, initial=0.0))

    @cached_property
    def _count(self) -> Ints:
        """(n,): number of calls of each request."""
        return np.asarray((~np.isnan(self.calls_ms)).sum(axis=1))

    @cached_property
    def _work(self) -> float:
        """Share of a call's latency that is work, which threads divide; 1 where busy time is not known."""
        calls = self._stage.calls_ms
        mean = float(np.nanmean(calls)) if (~np.isnan(calls)).any() else 0.0
        if self._stage.busy_ms is None or mean <= 0:
            return 1.0
        return min(1.0, self._stage.busy_ms / mean)

    def _read(self, ends_ms: Floats, rows: Rows | slice) -> Floats:
        """(k, width): time at which the gateway reads each answer, ms, from its arrival."""
        return ends_ms if self._lag_ms is None else ends_ms + self._lag_ms[rows]

    def _speed_up(self, race: BlockRace, policy: CatchUpPolicy, start_ms: Floats, count: Ints) -> Floats:
        """Speed up the calls that start late, in place; (k,) extra work, in units of one call's work."""
        late = start_ms >= policy.after_ms
        race.ends[late] *= 1.0 - self._work * (1.0 - 1.0 / policy.speedup)
        return np.asarray(late * count * policy.extra_work, dtype=float)

    def _draws(self, numbers: Ints, calls: Floats) -> CopyDraws:
        own = calls.copy() if self._rho > 0 or self._useless else None
        width = calls.shape[1]
        return CopyDraws(self._distribution, self._key, numbers, width, self._rho, own, self._useless)


def stop_times(ends_ms: Floats, count: Ints, policy: PartialPolicy) -> Floats:
    """(k,): time at which a fan-out stops waiting (Kwiken section 5.3), never before its first answer.

    Args:
        ends_ms: (k, width) latency of each shard's answer, milliseconds; NaN for no call.
        count: (k,) number of calls of each request.

    Returns:
        Milliseconds from the stage's start; 0 where there are no calls.
    """
    last = np.fmax.reduce(ends_ms, axis=1, initial=0.0)
    stop = last
    if policy.wait_ms is not None:
        rank = np.maximum(1, np.ceil(np.round(count * policy.progress, 9)).astype(np.int64))
        stop = np.minimum(stop, order_statistic(ends_ms, rank) + policy.wait_ms)
    if policy.cutoff_ms is not None:
        stop = np.minimum(stop, policy.cutoff_ms)
    first = np.fmin.reduce(ends_ms, axis=1, initial=math.inf)
    return np.where(count > 0, np.maximum(stop, np.where(count > 0, first, 0.0)), 0.0)


def cut_at_stop(calls_ms: Floats, policy: PartialPolicy) -> Floats:
    """(n, width): latencies of calls, milliseconds, each cut at the time its stop rule ends the stage.

    Args:
        calls_ms: (n, width) latency of each shard's answer, milliseconds; NaN for no call.
    """
    stop = stop_times(calls_ms, (~np.isnan(calls_ms)).sum(axis=1), policy)
    return np.asarray(np.minimum(calls_ms, stop[:, None]))


def order_statistic(values: Floats, rank: Ints) -> Floats:
    """(k,): the `rank`-th smallest of each row, from 1; NaN counts as infinite."""
    if not len(values):
        return np.empty(0)
    filled = np.where(np.isnan(values), math.inf, values)
    places = np.minimum(rank, values.shape[1]) - 1
    if (places == places[0]).all():
        return np.asarray(np.partition(filled, places[0], axis=1)[:, places[0]])
    filled.sort(axis=1)
    return np.asarray(filled[np.arange(len(filled)), places])


def lost_utility(ends_ms: Floats, stop_ms: Floats, shares: Floats | None, rows: Rows) -> Floats:
    """(k,): share of the utility that has not arrived by the stop, 0 to 1; `shares` of `utility_shares`."""
    late: Bools = ends_ms > stop_ms[:, None]  # False for no call
    if shares is None:
        count = (~np.isnan(ends_ms)).sum(axis=1)
        return np.asarray(late.sum(axis=1) / np.maximum(1, count))
    return np.asarray(np.where(late, shares[rows], 0.0).sum(axis=1))


def utility_shares(calls_ms: Floats, worth: Floats | None) -> Floats | None:
    """(n, width): each call's share of its request's utility; None where all calls are worth the same.

    Args:
        calls_ms: (n, width) latencies of calls, milliseconds; NaN for no call.
        worth: (n, width) relative weight of each answer, 0 or more; NaN where unknown; None where no worth is
            known.

    Returns:
        Rows of sum 1, or of sum 0 where all answers are worth nothing. An answer of unknown worth, such as
        one that was not waited for, counts as the mean of the known ones of its request; where none is known,
        all are equal.
    """
    if worth is None or not np.isfinite(worth).any():
        return None
    there = ~np.isnan(calls_ms)
    known = there & np.isfinite(worth)
    sums = np.where(known, worth, 0.0).sum(axis=1)
    mean = np.divide(sums, known.sum(axis=1), out=np.ones(len(sums)), where=known.any(axis=1))
    value = np.where(known, worth, np.where(there, mean[:, None], 0.0))
    total = value.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(value, total, out=np.zeros_like(value), where=total > 0))

"""Exchanges: a local search over numbers of racks and places in the order, after provisioning."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.racks.problem import RackProblem
from kwiken.batch.racks.provisioning import RackAllocation
from kwiken.batch.racks.schedule import Objective

BLOCK: Final = 32  # jobs between two kept states of the racks
FAR: Final = 64  # most places that an exchange moves a job in the order
MOVED_SHARE: Final = 0.4  # of the exchanges that move a job in the order; the others change its racks
CHOSEN_BY_DELAY: Final = 0.8  # of the exchanges whose job is drawn by what it could gain


class _State:
    """A schedule in which a part can be replaced: the racks' state is kept every `BLOCK` jobs."""

    def __init__(self, problem: RackProblem, kind: Objective, allocation: RackAllocation) -> None:
        self.times = problem.response_s.tolist()
        self.arrivals = problem.arrivals_s.tolist()
        self.racks, self.makespan = problem.racks, kind == "makespan"
        self.order: list[int] = allocation.order.tolist()
        self.widths: list[int] = allocation.widths.tolist()
        self.ends = [0.0] * problem.jobs
        self.blocks = -(-problem.jobs // BLOCK)
        # State of the racks, sorted, and the value of all jobs before each block.
        self.free: list[list[float]] = [[0.0] * self.racks for _ in range(self.blocks + 1)]
        self.before: list[float] = [0.0] * (self.blocks + 1)
        self.own: list[float] = [0.0] * self.blocks
        self.value = self.tried(0, self.order, self.widths, last=problem.jobs, limit=np.inf, keep=True) or 0.0

    def tried(
        self, first: int, order: list[int], widths: list[int], *, last: int, limit: float, keep: bool
    ) -> float | None:
        """Sum of times or makespan with another order or other widths from a place on.

        Args:
            first: first place in the order that may differ.
            last: place from which on order and widths are as before.
            limit: value at which the try is given up.
            keep: whether the new schedule replaces the present one.

        Returns:
            The value, or None where it reaches the limit.
        """
        start_block = first // BLOCK
        free = self.free[start_block].copy()
        total = self.before[start_block]
        arrivals, times, makespan, jobs = self.arrivals, self.times, self.makespan, len(order)
        for block in range(start_block, self.blocks):
            if keep:
                self.free[block] = free.copy()
                self.before[block] = total
            own = 0.0
            for job in order[block * BLOCK : (block + 1) * BLOCK]:
                width = widths[job]
                begin, arrival = free[width - 1], arrivals[job]
                begin = max(begin, arrival)
                end = begin + times[job][width - 1]
                del free[:width]
                at = bisect_left(free, end)
                free[at:at] = [end] * width
                if keep:
                    self.ends[job] = end
                if makespan:
                    own = max(own, end)
                else:
                    own += end - arrival
            if keep:
                self.own[block] = own
            total = max(total, own) if makespan else total + own
            if total >= limit:
                return None
            after = (block + 1) * BLOCK
            if (
                not keep
                and last <= after < jobs
                and self._same(free, self.free[block + 1], arrivals[order[after]])
            ):
                rest = self.own[block + 1 :]
                total = max(total, *rest) if makespan else total + sum(rest)
                return total if total < limit else None
        if keep:
            self.free[self.blocks] = free
            self.before[self.blocks] = total
        return total

    def _same(self, ours: list[float], kept: list[float], arrival_s: float) -> bool:
        """Whether two states are alike for jobs that arrive later: what is free before counts as free then.

        The order need not follow arrivals; a state is compared as it is then.
        """
        if ours == kept:
            return True
        if not self.by_arrival:
            return False
        at, other = bisect_left(ours, arrival_s), bisect_left(kept, arrival_s)
        return at == other and ours[at:] == kept[other:]

    by_arrival = False


def exchange(
    problem: RackProblem,
    kind: Objective,
    allocation: RackAllocation,
    *,
    tries: int,
    chance: np.random.Generator,
) -> RackAllocation:
    """Improve an allocation by exchanges that lower the objective.

    An exchange gives one job another number of racks, out of those that make it quicker than fewer would, or
    moves it in the order. Jobs that take much longer than on racks of their own are drawn more often.

    Args:
        tries: number of exchanges to try, 0 or more.
        chance: source of all draws.
    """
    state = _State(problem, kind, allocation)
    jobs = problem.jobs
    arrivals = problem.arrivals_s[allocation.order]
    state.by_arrival = bool((np.diff(arrivals) >= 0).all())
    choices = [np.flatnonzero(row) + 1 for row in problem.useful]
    place_of = np.empty(jobs, dtype=np.int64)
    place_of[allocation.order] = np.arange(jobs)
    weights = _weights(problem, state)
    changed = 0
    draws = chance.random((tries, 4))
    for turn in range(tries):
        if turn % REFRESH == 0 and changed:
            weights, changed = _weights(problem, state), 0
        pick, kind_of, first_draw, second_draw = draws[turn].tolist()
        job = (
            int(np.searchsorted(weights, pick / CHOSEN_BY_DELAY))
            if pick < CHOSEN_BY_DELAY
            else int(first_draw * jobs)
        )
        job = min(job, jobs - 1)
        place = int(place_of[job])
        order, widths = state.order, state.widths
        if kind_of < MOVED_SHARE and jobs > 1:
            reach = 1 + int(second_draw * second_draw * FAR)
            target = max(0, min(jobs - 1, place - reach if kind_of < MOVED_SHARE / 2 else place + reach))
            if target == place:
                continue
            first, last = min(place, target), max(place, target) + 1
            order = order.copy()
            order.insert(target, order.pop(place))
        else:
            options = choices[job]
            width = int(options[int(second_draw * len(options))])
            if width == widths[job]:
                continue
            first, last = place, place + 1
            widths = widths.copy()
            widths[job] = width
        value = state.tried(first, order, widths, last=last, limit=state.value * (1 - MIN_GAIN), keep=False)
        if value is None:
            continue
        state.order, state.widths = order, widths
        state.value = state.tried(first, order, widths, last=jobs, limit=np.inf, keep=True) or value
        place_of[order[first:last]] = np.arange(first, last)
        changed += 1
        if state.by_arrival:
            near = problem.arrivals_s[order[max(0, first - 1) : last + 1]]
            state.by_arrival = bool((np.diff(near) >= 0).all())
    value = state.value if kind == "makespan" else state.value / jobs
    return RackAllocation(np.array(state.widths), np.array(state.order), value)


REFRESH: Final = 200  # tries between two looks at which jobs could gain
MIN_GAIN: Final = 1e-9  # as a share of the objective; less is rounding


def _weights(problem: RackProblem, state: _State) -> Floats:
    """(J,) cumulated chances of the jobs, by how much each could gain."""
    ends = np.array(state.ends)
    if state.makespan:
        gain = np.maximum(ends - 0.9 * ends.max(), 0.0)
    else:
        gain = np.maximum(ends - problem.arrivals_s - problem.fastest_s, 0.0)
    total: Floats = np.cumsum(gain + 1e-12 * max(1.0, float(gain.max())))
    total /= total[-1]
    return total

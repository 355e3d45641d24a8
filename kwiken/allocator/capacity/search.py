"""Search for the cheapest sizes that meet a target: by marginal gain, then trimmed, then exchanged.

A replica more, a faster node and more copies are all moves from one size of a stage to another. Each is
judged by how much it lowers the p99 of whole requests, and by what it costs: the price of the replicas, and
for copies the price of the processor time that they take, even where no replica has to be added for it.

1. From the cheapest sizes that can serve the calls, the move with the largest gain per cost is made, until
   the target is met or nothing helps.
2. Trim: what is not needed is given back, the largest saving first.
3. Exchange: something is given back although it is needed, and the walk repairs the loss in another way; kept
   where that is cheaper. It corrects what the walk bought before it saw a better way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from kwiken.allocator.capacity.supply import Sizes, StageSize
from kwiken.allocator.capacity.trials import FIXED_LEVEL, LEVELS, StageTrials
from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.base.jobs import Spread
from kwiken.model.latency import critical_path, end_to_end
from kwiken.model.plan.plan import Costs
from kwiken.tail.simulation.common_random_numbers import smooth_p99

MIN_GAIN: Final = 5e-4  # share of p99 by which a move must lower it
MIN_SAVING: Final = 1e-9  # cost below which two costs count as equal
FREE: Final = 1e-6  # share of the smallest price that stands for no cost, as a divisor
MAX_STAGES_TRIED: Final = (
    12  # stages whose moves are tried in one step: those that slow requests wait for most
)
QUICK_QUANTILE: Final = 0.1  # latency of a stage at which its calls count as quick
SLOW_QUANTILE: Final = 0.98  # latency from which requests count as slow when those stages are chosen
MAX_STEPS: Final = 400  # moves of one walk
MAX_BLOCKED_TRIED: Final = 6  # moves beyond the budget of copies for which copies elsewhere are given up
MAX_EXCHANGES: Final = 12  # exchanges tried without success before the search ends
MAX_KNOWN: Final = 200_000  # combinations of sizes whose p99 is kept


@dataclass(frozen=True, kw_only=True)
class SizeLevers:
    """Kinds of moves that a search may make.

    Attributes:
        classes: whether stages may move to nodes of another class.
        reissues: whether shares of copies may change.
    """

    replicas: bool = True
    classes: bool = True
    reissues: bool = True


ALL_LEVERS: Final = SizeLevers()


@dataclass(frozen=True)
class FoundSizes:
    """Sizes of all stages with their effect.

    Attributes:
        sizes: size of each stage.
        p99_ms: p99 of whole requests in the trials, smoothed, milliseconds; infinite where some stage cannot
            serve its calls.
        cost: cost of all replicas in an hour.
    """

    sizes: Sizes
    p99_ms: float
    cost: float


class Search:
    """Search over the sizes of all stages.

    Args:
        costs: each stage's share of the work, by which copies draw on the budget.
        max_reissue: most copies, as a share of all work.
        spread: function that runs jobs: the sizes that one step may ask for are tried at once. None to try
            each when it is asked for, which leaves out those that cannot be the best. Finds the same.
    """

    def __init__(
        self,
        trials: StageTrials,
        costs: Costs,
        max_reissue: float,
        levers: SizeLevers = ALL_LEVERS,
        spread: Spread | None = None,
    ) -> None:
        self.trials, self.supply, self.levers = trials, trials.supply, levers
        self._costs = costs
        self._max_reissue = max_reissue
        self._nodes = trials.model.profile.stages
        self._known: dict[Sizes, float] = {}
        self._spread = spread

    def prepare(self, wanted: Iterable[tuple[int, StageSize]]) -> None:
        """Try sizes of stages at once that will be asked for; without an engine, nothing."""
        if self._spread is not None:
            self.trials.prepare(wanted, self._spread)

    def only(self, levers: SizeLevers) -> Search:
        """A search with the same trials, costs and budget, and other kinds of moves.

        The effect of sizes does not depend on the moves, so both searches know what either has found.
        """
        other = Search(self.trials, self._costs, self._max_reissue, levers, self._spread)
        other._known = self._known
        return other

    @cached_property
    def _least_price(self) -> float:
        prices = self.supply.price
        return float(prices[prices > 0].min())  # a class without nodes has no price

    def found(self, sizes: Sizes) -> FoundSizes:
        """Effect and cost of sizes."""
        return FoundSizes(sizes, self.p99_ms(sizes), self.supply.cost(sizes))

    def p99_ms(self, sizes: Sizes) -> float:
        """p99 of whole requests, smoothed, milliseconds; infinite where some stage cannot serve its calls."""
        if sizes not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            latencies = self._latencies(sizes)
            self._known[sizes] = math.inf if latencies is None else smooth_p99(self._whole(latencies))
        return self._known[sizes]

    def latencies(self, sizes: Sizes) -> Floats:
        """(n,): latencies of whole requests in the trials, milliseconds; the sizes can serve their calls."""
        return self._whole(self.stage_latencies(sizes))

    def stage_latencies(self, sizes: Sizes) -> list[Floats]:
        """By stage: (n,) latencies in the trials, milliseconds; the sizes can serve their calls."""
        latencies = self._latencies(sizes)
        assert latencies is not None
        return latencies

    def min_gain_ms(self, sizes: Sizes) -> float:
        """Least change of p99, milliseconds, that counts as a gain."""
        return MIN_GAIN * self.p99_ms(sizes)

    def spent(self, sizes: Sizes) -> float:
        """Share of all work that the copies of these sizes may cost."""
        spent = 0.0
        for stage, size in enumerate(sizes):
            policy = self.trials.policy(stage, size)
            if policy is not None:
                spent += self._costs.stages[self.trials.names[stage]] * policy.fraction
        return spent

    def allowed(self, sizes: Sizes) -> bool:
        """Whether sizes have room on the nodes and their copies are within the budget."""
        return not self.forbidden(sizes)

    def forbidden(self, sizes: Sizes) -> str:
        """What stands against sizes: `reissues` (the budget of copies), `nodes` (no room), or nothing."""
        if self._over_budget(sizes):
            return "reissues"
        return "" if self.supply.fits(sizes) else "nodes"

    def cheapest_start(self) -> Sizes:
        """Cheapest sizes that can serve the calls, without copies.

        Raises:
            InputError: names the stage for which the nodes have no room.
        """
        sizes: list[StageSize] = []
        for stage, name in enumerate(self.trials.names):
            options = [
                StageSize(self.trials.fewest(stage, place), place)
                for place in range(len(self.supply.classes))
                if self.trials.fewest(stage, place) <= self.supply.limit[stage, place]
            ]
            options.sort(
                key=lambda size: (size.replicas * self.supply.price[stage, size.node_class], size.node_class)
            )
            chosen = next((one for one in options if self.supply.fits([*sizes, one])), None)
            if chosen is None:
                raise self._no_room(stage, name)
            sizes.append(chosen)
        return tuple(sizes)

    def _no_room(self, stage: int, name: str) -> InputError:
        """Error that says how many replicas a stage needs to serve its calls, and what bounds them."""
        fewest = min(self.trials.fewest(stage, place) for place in range(len(self.supply.classes)))
        most = self.supply.need(stage).max_replicas
        needs = f"{fewest:,} or more replicas of one core"
        if fewest > most:
            return InputError(
                f"at {self.trials.rate_per_s:g} requests a second stage {name!r} needs {needs} to serve its "
                f"calls at all, and may have {most}: lower the rate, or raise its workload's `max_replicas`",
                where="rate",
            )
        return InputError(
            f"have no room for stage {name!r}, which needs {needs} to serve "
            f"{self.trials.rate_per_s:g} requests a second at all",
            where="nodes",
        )

    def cheapest(self, target_ms: float, start: Sizes | None = None) -> FoundSizes:
        """Cheapest sizes found whose p99 is at most a target; those of the walk's least p99 where none is.

        Args:
            target_ms: p99 to reach, milliseconds.
            start: sizes to start from; None for the cheapest.
        """
        best = self.trim(self.walk(self.found(start or self.cheapest_start()), target_ms), target_ms)
        if best.p99_ms > target_ms:
            return best

        def better(other: FoundSizes, than: FoundSizes) -> bool:
            del than  # `walked` stays below the cost of `than`, so `other` is cheaper
            return other.p99_ms <= target_ms

        def walked(less: FoundSizes, than: FoundSizes) -> FoundSizes:
            return self.trim(self.walk(less, target_ms, below=than.cost - MIN_SAVING), target_ms)

        return self._exchanged(best, walked, better)

    def least_p99(self, cost: float, start: Sizes | None = None) -> FoundSizes:
        """Sizes of the least p99 found at no more than a cost.

        Args:
            cost: most that the replicas may cost in an hour.
            start: sizes to start from; None for the cheapest.
        """
        below = cost + MIN_SAVING
        best = self.walk(self.found(start or self.cheapest_start()), 0.0, below)

        def better(other: FoundSizes, than: FoundSizes) -> bool:
            return other.p99_ms < than.p99_ms * (1 - MIN_GAIN)

        def walked(less: FoundSizes, than: FoundSizes) -> FoundSizes:
            del than
            return self.walk(less, 0.0, below)

        return self._exchanged(best, walked, better)

    def _exchanged(
        self,
        best: FoundSizes,
        walked: Callable[[FoundSizes, FoundSizes], FoundSizes],
        better: Callable[[FoundSizes, FoundSizes], bool],
    ) -> FoundSizes:
        """Give something back and walk on from there, until that has failed `MAX_EXCHANGES` times in a row.

        Args:
            best: sizes to start from.
            walked: sizes found from smaller ones, where some are the best so far.
            better: whether sizes are better than the best so far.
        """
        tried: set[Sizes] = set()
        failed = 0
        while failed < MAX_EXCHANGES:
            given_back = next((one for one in self._savings(best) if one not in tried), None)
            if given_back is None:
                break
            tried.add(given_back)
            other = walked(self.found(given_back), best)
            if better(other, best):
                best, failed = other, 0
            else:
                failed += 1
        return best

    def reach(self, cost: float) -> FoundSizes:
        """Sizes that the walk alone comes to within a cost: roughly the least p99 there.

        Args:
            cost: most that the replicas may cost in an hour.
        """
        return self.walk(self.found(self.cheapest_start()), 0.0, below=cost + MIN_SAVING)

    def walk(self, found: FoundSizes, target_ms: float, below: float = math.inf) -> FoundSizes:
        """Make the move of most gain per cost until the target is met or no move below the cost helps."""
        for _ in range(MAX_STEPS):
            if found.p99_ms <= target_ms:
                break
            chosen = self._best_move(found, target_ms, below)
            if chosen is None:
                break
            found = chosen
        return found

    def _best_move(self, found: FoundSizes, target_ms: float, below: float) -> FoundSizes | None:
        """The allowed move of most gain per cost; where the budget of copies forbids all, a shift of copies.

        Moves that can no longer be the best, whatever a simulation would say, are not simulated: no move at a
        stage gains more than the stage at its fastest would.
        """
        scored: list[tuple[float, float, Sizes]] = []
        charged, cost = self.charged(found.sizes), found.cost
        bounds = self.gain_bounds(found, target_ms)
        moves = [
            (size.replicas != found.sizes[stage].replicas, -bound, stage, size)
            for stage, bound in bounds.items()
            for size in map(self._sound, self._moves(stage, found.sizes[stage]))
        ]
        self.prepare((stage, size) for _, _, stage, size in moves)
        best = 0.0
        for resized, negative_bound, stage, size in sorted(moves, key=lambda move: move[:3]):
            sizes = _with(found.sizes, stage, size)
            price = self.supply.cost(sizes)
            if price >= below or (resized and price > cost and -negative_bound / (price - cost) < best):
                continue
            # Gain beyond the target is worth nothing.
            gain = found.p99_ms - max(self.p99_ms(sizes), target_ms)
            if not gain > MIN_GAIN * found.p99_ms:
                continue
            score = gain / max(self.charged(sizes) - charged, FREE * self._least_price)
            scored.append((score, gain, sizes))
            if score > best and self.allowed(sizes):
                best = score
        scored.sort(key=lambda one: one[:2], reverse=True)
        for _, _, sizes in scored:
            if self.allowed(sizes):
                return self.found(sizes)
        return self._shifted(found, [sizes for _, _, sizes in scored if self._over_budget(sizes)])

    def _shifted(self, found: FoundSizes, blocked: Sequence[Sizes]) -> FoundSizes | None:
        """The best of some moves beyond the budget of copies, with copies of another stage given up."""
        best = None
        least = found.p99_ms * (1 - MIN_GAIN)
        for sizes in blocked[:MAX_BLOCKED_TRIED]:
            for stage, size in enumerate(sizes):
                if size != found.sizes[stage]:
                    continue
                fewer = (
                    _with(sizes, stage, replace(size, level=level)) for level in range(size.level - 1, -1, -1)
                )
                fitting = next((one for one in fewer if not self._over_budget(one)), None)
                if fitting is not None and self.p99_ms(fitting) < least and self.supply.fits(fitting):
                    best, least = self.found(fitting), self.p99_ms(fitting)
        return best

    def _over_budget(self, sizes: Sizes) -> bool:
        return self.spent(sizes) > self._max_reissue + ROUNDING

    def trim(self, found: FoundSizes, target_ms: float) -> FoundSizes:
        """Give back what the target does not need, the largest saving first.

        Args:
            found: sizes to make cheaper; kept as they are where they miss the target.
            target_ms: p99 that stays met, milliseconds.
        """
        while found.p99_ms <= target_ms:
            kept = [one for one in self._savings(found) if self.p99_ms(one) <= target_ms]
            if not kept:
                kept = [
                    one
                    for one in self._fewer_copies(found.sizes)
                    if self.p99_ms(one) <= target_ms and self.charged(one) < self.charged(found.sizes)
                ]
            if not kept:
                break
            found = self.found(min(kept, key=lambda one: (self.charged(one), self.p99_ms(one))))
        return found

    def _savings(self, found: FoundSizes) -> list[Sizes]:
        """Allowed sizes that cost less and differ at one stage, the least p99 first."""
        less = [
            (stage, size)
            for stage, now in enumerate(found.sizes)
            for size in map(self._sound, self._downs(stage, now))
        ]
        self.prepare(less)
        cheaper = (_with(found.sizes, stage, size) for stage, size in less)
        kept = [
            one
            for one in cheaper
            if self.supply.cost(one) < found.cost - MIN_SAVING
            and math.isfinite(self.p99_ms(one))
            and self.allowed(one)
        ]
        return sorted(kept, key=lambda one: (self.p99_ms(one), self.supply.cost(one)))

    def _fewer_copies(self, sizes: Sizes) -> Iterator[Sizes]:
        if self.levers.reissues:
            for stage, size in enumerate(sizes):
                if size.level:
                    yield _with(sizes, stage, replace(size, level=max(0, size.level - 1)))

    def _moves(self, stage: int, now: StageSize) -> Iterator[StageSize]:
        """Sizes to try instead of one: more replicas, other nodes, more or fewer copies, some of both."""
        for level in self._levels(stage, now, (-1, 1, 2, 4)):
            if level != now.level:
                yield replace(now, level=level)
        for size in self._resized(stage, now, (1, 2, max(3, now.replicas // 2))):
            first = size.node_class == now.node_class and size.replicas == now.replicas + 1
            for level in self._levels(stage, now, (1, 3)) if first else [now.level]:
                yield replace(size, level=level)

    def _downs(self, stage: int, now: StageSize) -> Iterator[StageSize]:
        """Cheaper sizes to try instead of one, with as many copies or some more."""
        for size in self._resized(stage, now, (-1, -2)):
            for level in self._levels(stage, now, (1, 2)):
                yield replace(size, level=level)

    def _levels(self, stage: int, now: StageSize, steps: Sequence[int]) -> list[int]:
        """The level itself, those some steps away, and that of the given policy."""
        if not (self.levers.reissues and self.trials.reissuable(stage)):
            return [now.level]
        given = self.trials.given_level(stage)
        if now.level == FIXED_LEVEL:
            return [
                FIXED_LEVEL,
                0,
                *(level for level in (given - 1, given, given + 1) if 0 < level < len(LEVELS)),
            ]
        levels = {now.level, *(now.level + step for step in steps)} & set(range(len(LEVELS)))
        return sorted(levels | ({FIXED_LEVEL} if given else set()))

    def _sound(self, size: StageSize) -> StageSize:
        """The size without copies where there is only one replica, as a copy goes to another."""
        return replace(size, level=0) if size.replicas == 1 else size

    def _resized(self, stage: int, now: StageSize, steps: Sequence[int]) -> Iterator[StageSize]:
        """Sizes with some replicas more, or on nodes of another class."""
        if not self.trials.sized(stage):
            return
        limit = self.supply.limit[stage]
        if self.levers.replicas:
            for count in (now.replicas + step for step in steps):
                if 1 <= count <= limit[now.node_class]:
                    yield replace(now, replicas=count)
        if self.levers.classes:
            yield from self._elsewhere(stage, now)

    def _elsewhere(self, stage: int, now: StageSize) -> Iterator[StageSize]:
        """Sizes on nodes of other classes, with as many replicas or about as much capacity."""
        limit = self.supply.limit[stage]
        for place in range(len(self.supply.classes)):
            if place == now.node_class:
                continue
            ratio = float(self.supply.speed[stage, now.node_class] / self.supply.speed[stage, place])
            counts = {now.replicas}
            if self.levers.replicas:
                same = now.replicas * ratio
                counts |= {math.floor(same), math.ceil(same), math.ceil(same) + 1, now.replicas - 1}
            for count in sorted(counts):
                if self.trials.fewest(stage, place) <= count <= limit[place]:
                    yield replace(now, replicas=count, node_class=place)

    def gain_bounds(self, found: FoundSizes, target_ms: float) -> dict[int, float]:
        """By stage worth trying: the most that a move there can lower p99, milliseconds.

        Tried are the stages that slow requests wait for most. Without waiting and stragglers a stage would
        take no longer than its quick calls; on faster nodes it might take no time.
        """
        latencies = self.stage_latencies(found.sizes)
        names, whole = self.trials.names, self._whole(latencies)
        slow = np.flatnonzero(whole >= np.quantile(whole, SLOW_QUANTILE))
        parts = {name: latency[slow] for name, latency in zip(names, latencies, strict=True)}
        on_path = critical_path(self._nodes, parts)
        excess = [
            float((parts[name] * on_path[stage]).sum() - np.median(latencies[stage]) * on_path[stage].sum())
            for stage, name in enumerate(names)
        ]
        order = sorted(range(len(names)), key=lambda stage: -excess[stage])
        movable = [
            s for s in order if on_path[s].any() and (self.trials.sized(s) or self.trials.reissuable(s))
        ]
        several = self.levers.classes and len(self.supply.classes) > 1
        bounds = {}
        for stage in movable[:MAX_STAGES_TRIED]:
            quick = 0.0 if several else float(np.quantile(latencies[stage], QUICK_QUANTILE))
            at_best = [*latencies[:stage], np.minimum(latencies[stage], quick), *latencies[stage + 1 :]]
            bound = found.p99_ms - max(target_ms, smooth_p99(self._whole(at_best)))
            if bound > MIN_GAIN * found.p99_ms:
                bounds[stage] = bound
        return bounds

    def charged(self, sizes: Sizes) -> float:
        """Cost of replicas and of the processor time that copies take."""
        copies = 0.0
        for stage, size in enumerate(sizes):
            trial = self.trials.trial(stage, size) if size.level else None
            if trial is not None:
                busy = self.trials.busy_cores(stage, size.node_class)
                copies += max(0.0, trial.extra_load) * busy * float(self.supply.price[stage, size.node_class])
        return self.supply.cost(sizes) + copies

    def _latencies(self, sizes: Sizes) -> list[Floats] | None:
        found = []
        for stage, size in enumerate(sizes):
            trial = self.trials.trial(stage, size)
            if trial is None:
                return None
            found.append(trial.latency_ms[self.trials.warm_up :])
        return found

    def _whole(self, latencies: Sequence[Floats]) -> Floats:
        return end_to_end(self._nodes, dict(zip(self.trials.names, latencies, strict=True)))


def _with(sizes: Sizes, stage: int, size: StageSize) -> Sizes:
    return (*sizes[:stage], size, *sizes[stage + 1 :])

"""Benchmark of rules that see a load rise: windows missed beside node-seconds billed, on drawn loads.

A world of its own, without processes: Poisson requests on nodes of one kind, a queue in each second, boots,
and the watch that orders a node once p99 is missed, which is the same for every rule. Only the load that is
prepared for differs. The rule is chosen on one set of seeds and checked on another.

The choice: of the rules that order a node in at most a tenth of the runs at a steady 0.6 of a node, the least
sum of the share of the flat runs that order a node for what is prepared for, and three times the share of the
rising runs that miss the target. A node for nothing costs some minutes of a node; a miss breaks a promise.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.harness import Row
from benchmarks.placement.renting.load_shapes import LASTS_S, SHAPES, LoadShape
from benchmarks.placement.renting.look_ahead_rules import (
    Headroom,
    LocalLine,
    LookAhead,
    Outlook,
    Reactive,
    ThreeRising,
)
from kwiken.allocator.adaptation.load_outlook import OutlookSettings

RATES_PER_S = (10.0, 30.0, 100.0, 1000.0)  # that one node serves within the target
BOOTS_S = (3.0, 20.0)
REPLICA_S = 2.0  # until a replica on a node that is ready serves
AHEAD_S = 10.0  # beyond a boot, that the rules look
NODES = 4
WINDOW_S = 5
ROOM = 1.15  # over the load that is prepared for
CONFIDENT = 0.95  # of what a node serves, that is counted on
TO_CAPACITY = 1 / 0.9  # what a node does at most, over what it serves within the target
LATE_CALLS, MIN_LATE_S = 16.0, 0.5  # wait of a request that is late: calls on a node, and at least seconds
WINDOWS_TO_GROW, WINDOWS_TO_SHRINK, COOL_DOWN_S = 2, 12, 20.0
CALM = 0.1  # seconds of work that wait, at most, in a calm window
SPARE = 1.15
REGRET_S = 600.0
PROCESSES = 4
KEPT_BOOTS = 10
MAX_LATE = 0.01  # share of a run's requests
STEADY, MAX_STEADY_ORDERS = "flat at 0.6", 0.1
MISS_COSTS = 3.0  # flat runs with a node for nothing that a run that misses weighs as much as
CHOSEN_ON, CHECKED_ON = range(2200, 2202), range(3200, 3203)  # earlier ones were used while rules were built


@dataclass(frozen=True)
class Played:
    """One run.

    Attributes:
        late: share of the requests that waited too long.
        over: share of the seconds with more load than the nodes that serve carry within the target.
        billed_s: node-seconds beyond the first node.
        foreseen: number of nodes ordered because of the load that was prepared for.
    """

    late: float
    over: float
    billed_s: float
    foreseen: int


def _outlook(change: float, quantile: float) -> Outlook:
    return Outlook(OutlookSettings(change=change, quantile=quantile))


RULES: dict[str, Callable[[], LookAhead]] = {
    "reactive": Reactive,
    "three rising windows": ThreeRising,
    **{f"headroom {share:.0%}": partial(Headroom, share) for share in (0.15, 0.3, 0.5)},
    **{
        f"local line, drift {drift:g}, {above:g} above, rising by {rising:g}": partial(
            LocalLine, drift, above, rising
        )
        for drift, above, rising in itertools.product((0.0005, 0.002), (0.0, 1.0), (1.0, 2.0))
    },
    **{
        f"outlook, change {change:g}, quantile {quantile:g}": partial(_outlook, change, quantile)
        for change, quantile in itertools.product((0.1, 0.3, 0.5), (0.6, 0.7, 0.8))
    },
}


class World:
    """Nodes and requests of one run, second by second; the same for every rule."""

    def __init__(self, rate_per_s: float, boot_s: float) -> None:
        self.rate_per_s, self.boot_s = rate_per_s, boot_s
        self.late_s = max(MIN_LATE_S, LATE_CALLS / (rate_per_s * TO_CAPACITY))
        self.serving = 1
        self.ready_at: list[float] = []  # moments at which nodes that were ordered will serve
        self.late = self.over = self.billed_s = self.backlog = 0.0
        self.foreseen = self.slow = self.quiet = 0
        self.patience, self.busy_until, self.gave_back = WINDOWS_TO_SHRINK, -1.0, float("-inf")
        self.recent_late = self.recent = 0.0

    @property
    def have(self) -> int:
        """Nodes that serve or will."""
        return self.serving + len(self.ready_at)

    def second(self, now: int, load: float, count: int) -> None:
        """One second of requests."""
        while self.ready_at and self.ready_at[0] <= now:
            self.ready_at.pop(0)
            self.serving += 1
        carried = self.serving * self.rate_per_s * TO_CAPACITY
        if max(0.0, self.backlog + count - carried / 2) / carried > self.late_s:
            self.late += count
            self.recent_late += count
        self.backlog = max(0.0, self.backlog + count - carried)
        self.over += load > self.serving * self.rate_per_s
        self.billed_s += self.have - 1
        self.recent += count

    def window(self, now: int, arrived: int, expected: float) -> None:
        """End of a window: nodes for the load that is prepared for, and what the watch adds or gives back."""
        missed = self.recent_late > MAX_LATE * max(1.0, self.recent)
        self.recent_late, self.recent = self.recent_late / 2, self.recent / 2  # old ones leave slowly
        wanted = min(NODES, math.ceil(ROOM * expected / (CONFIDENT * self.rate_per_s)))
        self.foreseen += max(0, wanted - self.have)
        if now >= self.busy_until:
            calm = not missed and self.backlog < CALM * self.serving * self.rate_per_s
            self.slow = self.slow + 1 if missed else 0
            self.quiet = self.quiet + 1 if calm else 0
            if self.slow >= WINDOWS_TO_GROW:
                wanted = max(wanted, min(NODES, self.have + 1))
        if wanted > self.have:
            self._order(now, wanted - self.have)
        elif self.quiet >= self.patience and self.serving > 1:
            self._give_back(now, arrived)

    def _order(self, now: int, count: int) -> None:
        self.ready_at += [now + self.boot_s + REPLICA_S] * count
        if now - self.gave_back < REGRET_S:
            self.patience *= 2
            self.gave_back = float("-inf")
        self.slow = self.quiet = 0
        self.busy_until = now + COOL_DOWN_S

    def _give_back(self, now: int, arrived: int) -> None:
        self.quiet, self.busy_until = 0, now + COOL_DOWN_S
        least = (self.serving - 1) * CONFIDENT * self.rate_per_s
        if ROOM * SPARE * arrived / WINDOW_S <= least and not self.ready_at:
            self.serving -= 1
            self.billed_s += KEPT_BOOTS * self.boot_s
            self.gave_back = now


def play(shape: LoadShape, rate_per_s: float, boot_s: float, rule: LookAhead, seed: int) -> Played:
    """One run of a rule: the same requests for every rule."""
    chance = random.Random(zlib.crc32(f"{shape.name} {rate_per_s} {boot_s} {seed}".encode()))
    load = shape.draw(chance) * rate_per_s
    offset = chance.randrange(WINDOW_S)
    counts = np.random.default_rng(chance.getrandbits(32)).poisson(load)
    world, arrived = World(rate_per_s, boot_s), 0
    for now, (rate, count) in enumerate(zip(load.tolist(), counts.tolist(), strict=True)):
        world.second(now, rate, count)
        arrived += count
        if (now + 1 + offset) % WINDOW_S == 0:
            world.window(now, arrived, rule.expected_per_s(arrived, boot_s + AHEAD_S))
            arrived = 0
    return Played(world.late / max(1, counts.sum()), world.over / LASTS_S, world.billed_s, world.foreseen)


@dataclass(frozen=True)
class Judged:
    """A rule over all runs.

    Attributes:
        missed: share of the runs that rise in which more than 1% of the requests were late.
        over: share of their seconds with more load than was served.
        billed_s: mean of their node-seconds beyond the first node.
        flat: share of the flat runs in which a node was ordered for a load that was prepared for.
        by_shape: share of runs that missed, or of flat ones that ordered, by shape.
    """

    missed: float
    over: float
    billed_s: float
    flat: float
    by_shape: dict[str, float]


def judged(rule: Callable[[], LookAhead], seeds: range) -> Judged:
    """Play a rule on all shapes, rates, boots and seeds."""
    rising: list[Played] = []
    flat: list[Played] = []
    by_shape = {}
    for shape in SHAPES:
        runs = [
            play(shape, rate, boot, rule(), seed)
            for rate, boot, seed in itertools.product(RATES_PER_S, BOOTS_S, seeds)
        ]
        by_shape[shape.name] = float(
            np.mean([one.foreseen > 0 if shape.flat else one.late > MAX_LATE for one in runs])
        )
        (flat if shape.flat else rising).extend(runs)
    return Judged(
        missed=float(np.mean([one.late > MAX_LATE for one in rising])),
        over=float(np.mean([one.over for one in rising])),
        billed_s=float(np.mean([one.billed_s for one in rising])),
        flat=float(np.mean([one.foreseen > 0 for one in flat])),
        by_shape=by_shape,
    )


def chosen(found: dict[str, Judged]) -> str:
    """Rule by the choice that the module states."""
    able = {name: one for name, one in found.items() if one.by_shape[STEADY] <= MAX_STEADY_ORDERS}
    return min(able, key=lambda name: MISS_COSTS * able[name].missed + able[name].flat)


def _all_judged(names: list[str], seeds: range) -> dict[str, Judged]:
    with ProcessPoolExecutor(PROCESSES) as pool:
        rules = [RULES[name] for name in names]
        return dict(zip(names, pool.map(judged, rules, itertools.repeat(seeds)), strict=True))


def _print(title: str, found: dict[str, Judged]) -> None:
    print(title)
    print(f"{'rule':60} {'missed':>7} {'over':>7} {'billed s':>9} {'flat':>6}")
    for name, one in sorted(found.items(), key=lambda item: item[1].missed):
        print(f"{name:60} {one.missed:7.1%} {one.over:7.2%} {one.billed_s:9.0f} {one.flat:6.1%}")


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    choice_seeds, check_seeds = (range(1), range(1000, 1001)) if quick else (CHOSEN_ON, CHECKED_ON)
    found = _all_judged(list(RULES), choice_seeds)
    best = chosen(found)
    _print(f"seeds {choice_seeds.start} to {choice_seeds.stop - 1}, by which the rule is chosen", found)
    beside = [best, *(name for name in RULES if not name.startswith(("outlook", "local")) and name != best)]
    checked = _all_judged(beside, check_seeds)
    _print(f"fresh seeds {check_seeds.start} to {check_seeds.stop - 1}", checked)
    for shape in SHAPES:
        told = "  ".join(f"{checked[name].by_shape[shape.name]:7.1%}" for name in beside)
        print(f"{shape.name:30} {told}")
    ours = checked[best]
    return [
        Row(
            name=f"{what}: {best}",
            ours=scale * getattr(ours, figure),
            unit=unit,
            alternative=name,
            theirs=scale * getattr(checked[name], figure),
        )
        for name in beside[1:]
        for what, figure, scale, unit in (
            ("runs that missed the target", "missed", 100.0, "%"),
            ("seconds above what was served", "over", 100.0, "%"),
            ("node-seconds rented", "billed_s", 1.0, "s"),
            ("flat loads that rented", "flat", 100.0, "%"),
        )
    ]

"""Benchmark of the first item of a stream: plan, even spread and p95 everywhere, all at 2% of extra work.

The gateway's engine runs in virtual time with the published times of `first_item_world`, so a busy machine
changes nothing. In each scene kwiken learns as its demo does: from requests without copies, then from those
of a first plan. The plans are then compared in turns on fresh requests, the same for each arm. The arms:

1. The plan, and the even spread: as `kwiken plan` makes them, with a budget of 2%.
2. p95 everywhere: every stage copies calls that are older than its p95. 5% of the calls are, so a coin of
   2 in 5 keeps that at 2%.
3. p95 everywhere, without the coin: the ledger denies what exceeds 2%.

The same budget is not the same extra work: budgets are charged with typical times. So the arms run once more
on fresh requests, their budgets multiplied by what the plan was measured to spend over what they spent, and
the coin likewise, up to 1.

Ratios are of p99, with the interval of their median over the turns. The plan is `met` against an arm if its
whole interval is at 1 or above.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks.harness import Row, median_interval
from benchmarks.in_process.first_item_world import FIRST_SET, SECOND_SET, TOKENS, StoryWorld, Times
from kwiken.apps.demo.trial.plans import (
    LEDGER,
    P95_COPIED,
    DemoStretch,
    Learned,
    first_plan,
    learn,
    learn_copies,
)
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.otel.write.observer import make_observer
from kwiken.otel.write.records import RequestRecord
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.testing.client import ServiceClient
from kwiken.testing.virtual_loop import simulate

BUDGET = 0.02
LIKENESS = (0.0, 0.5)  # of a call and its copy
RATE_PER_S = 10.0
LEARNED, PILOT = 3000, 2000  # requests without a plan, and with the first one
EQUAL_SPEND_SEED = 100  # added to the seeds of turns at the plan's spend
REQUESTS, TURNS = 2000, 10  # of an arm in a turn, and turns
QUICK_REQUESTS, QUICK_TURNS = 300, 2
SEEDS = {FIRST_SET.name: 61, SECOND_SET.name: 6100}  # of learning; turn k of a scene adds k
NONE, PLAN, EVEN = "no copies", "the plan", "even"
P95, P95_NO_COIN = "p95 everywhere", "p95 everywhere, no coin"


@dataclass(frozen=True)
class Turn:
    """What one arm met in one turn.

    Attributes:
        p99_ms: p99 of the time to the first item, milliseconds.
        extra: work of copies up to their first item, as a share of the work of first attempts.
    """

    p99_ms: float
    extra: float


async def ask(client: ServiceClient, first: int, count: int, rng: random.Random) -> None:
    """Send requests in open loop, at the moments of a Poisson process, and wait for all of them."""
    tasks = []
    for number in range(first, first + count):
        await asyncio.sleep(rng.expovariate(RATE_PER_S))
        tasks.append(asyncio.create_task(client.ask(number)))
    for answer in await asyncio.gather(*tasks):
        assert answer.value == list(range(TOKENS)), "no item is lost, doubled or out of order"


def write(records: Sequence[RequestRecord], folder: Path) -> DemoStretch:
    """Write the spans of requests; returns the stretch of time in which they began."""
    spans = make_observer("story", traces=folder)
    for record in records:
        spans.request_finished(record)
    spans.close()
    starts = [record.start_ns / 1e9 for record in records]
    return DemoStretch(min(starts), max(starts) + 1e-3)


def learned(times: Times, likeness: float, folder: Path, *, seed: int) -> Learned:
    """Plans of a scene."""
    world = StoryWorld(times, likeness, seed=seed)

    async def main() -> Learned:
        rng = random.Random(f"{seed} arrivals")
        client = world.client(None)
        await ask(client, 0, LEARNED, rng)
        alone = write(client.requests, folder / "alone")
        profile = learn(folder / "alone", [alone])
        first = first_plan(profile, budget=BUDGET, seed=seed)
        client.apply(first)
        await ask(client, LEARNED, PILOT, rng)
        pilot = write(client.requests[LEARNED:], folder / "pilot")
        return learn_copies(profile, first, folder / "pilot", [pilot], budget=BUDGET, seed=seed)

    return simulate(main)


def p95_everywhere(found: Learned, times: float, *, coin: bool) -> Plan:
    """Plan that copies every stage's calls at their p95.

    Args:
        times: factor on the budget and the coin.
        coin: whether a coin keeps copies within the budget, and not the ledger alone.
    """
    budget = BUDGET * times
    plan = replace(found.everywhere, budgets=Budgets(reissue=min(1.0, budget)), ledger=LEDGER)
    share = min(1.0, budget / P95_COPIED) if coin else 1.0
    tossed = {
        name: replace(
            stage, reissue=replace(stage.reissue, probability=share, fraction=min(budget, P95_COPIED))
        )
        for name, stage in plan.stages.items()
        if stage.reissue is not None
    }
    return replace(plan, stages=tossed)


def even(found: Learned, times: float, seed: int) -> Plan:
    """Plan that gives every stage the same amount of a budget that is so many times as large."""
    settings = PlanSettings(
        budgets=Budgets(reissue=BUDGET * times),
        spread="equal",
        ledger=LEDGER,
        created=found.study.plan.created,
        seed=seed,
    )
    return study_plan(found.profile, settings).plan


def arms(found: Learned) -> dict[str, Plan | None]:
    """Plans to compare, by name."""
    return {
        PLAN: found.study.plan,
        EVEN: found.even,
        P95: p95_everywhere(found, 1.0, coin=True),
        P95_NO_COIN: p95_everywhere(found, 1.0, coin=False),
        NONE: None,
    }


def arms_at_equal_spend(found: Learned, spent: Mapping[str, float], *, seed: int) -> dict[str, Plan | None]:
    """Plans with budgets by which they should spend what the plan does.

    Args:
        spent: extra work that each arm was measured to spend at the same budget, as any share.
    """
    times = {name: spent[PLAN] / spent[name] for name in (EVEN, P95, P95_NO_COIN)}
    return {
        PLAN: found.study.plan,
        EVEN: even(found, times[EVEN], seed),
        P95: p95_everywhere(found, times[P95], coin=True),
        P95_NO_COIN: p95_everywhere(found, times[P95_NO_COIN], coin=False),
    }


def turn(times: Times, likeness: float, plan: Plan | None, requests: int, *, seed: int) -> Turn:
    """Run one arm for one turn."""
    world = StoryWorld(times, likeness, seed=seed)

    async def main() -> list[RequestRecord]:
        client = world.client(plan)
        await ask(client, 0, requests, random.Random(f"{seed} arrivals"))
        return client.requests

    records = simulate(main)
    firsts_ms = [(each.first_item_ns - each.start_ns) / 1e6 for each in records if each.first_item_ns]
    assert len(firsts_ms) == requests
    return Turn(float(np.percentile(firsts_ms, 99)), world.copied_ms / world.work_ms)


def in_turns(
    times: Times, likeness: float, plans: Mapping[str, Plan | None], requests: int, seeds: Sequence[int]
) -> dict[str, list[Turn]]:
    """Run all arms in turns, each turn with a seed."""
    by_arm: dict[str, list[Turn]] = {name: [] for name in plans}
    for seed in seeds:
        for name, plan in plans.items():
            by_arm[name].append(turn(times, likeness, plan, requests, seed=seed))
    return by_arm


def scene(times: Times, likeness: float, requests: int, turns: int) -> list[Row]:
    """Rows of one set of published times."""
    seed = SEEDS[times.name]
    with tempfile.TemporaryDirectory() as folder:
        found = learned(times, likeness, Path(folder), seed=seed)
    where = f"{times.name}, likeness {likeness:g}"
    seeds = range(seed + 1, seed + 1 + turns)
    by_arm = in_turns(times, likeness, arms(found), requests, seeds)
    spent = {name: statistics.median(each.extra for each in those) for name, those in by_arm.items()}
    rows = rows_of(where, by_arm)
    expected = found.study.plan.expected
    assert expected is not None
    rows.append(Row(name=f"{where}: p99 expected by the plan", ours=expected.after.p99_ms, unit="ms"))
    return rows + equal_spend(where, times, likeness, found, spent, requests, turns)


def equal_spend(
    where: str,
    times: Times,
    likeness: float,
    found: Learned,
    spent: Mapping[str, float],
    requests: int,
    turns: int,
) -> list[Row]:
    """Rows at the plan's spend; there are none where an arm or the plan sends no copies."""
    if not all(spent[name] for name in (PLAN, EVEN, P95, P95_NO_COIN)):
        return []
    seed = SEEDS[times.name]
    seeds = range(seed + EQUAL_SPEND_SEED, seed + EQUAL_SPEND_SEED + turns)
    plans = arms_at_equal_spend(found, spent, seed=seed)
    return rows_of(f"{where}, at the plan's spend", in_turns(times, likeness, plans, requests, seeds))


def rows_of(where: str, by_arm: Mapping[str, Sequence[Turn]]) -> list[Row]:
    """Rows of p99 beside each arm, and of every arm's extra work."""
    ours = by_arm[PLAN]
    rows = [
        ratio_row(f"{where}: p99 of the first item", name, ours, theirs, judged=name != NONE)
        for name, theirs in by_arm.items()
        if name != PLAN
    ]
    return rows + [
        Row(
            name=f"{where}: extra work, {name}",
            ours=100 * statistics.median(each.extra for each in spent),
            unit="%",
            spread=(100 * min(each.extra for each in spent), 100 * max(each.extra for each in spent)),
        )
        for name, spent in by_arm.items()
        if name != NONE
    ]


def ratio_row(name: str, arm: str, ours: Sequence[Turn], theirs: Sequence[Turn], *, judged: bool) -> Row:
    """Row of the plan beside another arm, with the interval of the median ratio."""
    ratios = [rival.p99_ms / own.p99_ms for own, rival in zip(ours, theirs, strict=True)]
    low, high = median_interval(ratios)
    return Row(
        name=name,
        ours=statistics.median(each.p99_ms for each in ours),
        unit="ms",
        alternative=arm,
        theirs=statistics.median(each.p99_ms for each in theirs),
        ratio=statistics.median(ratios),
        spread=(low, high),
        met=low >= 1.0 if judged else None,
    )


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    requests, turns = (QUICK_REQUESTS, QUICK_TURNS) if quick else (REQUESTS, TURNS)
    return [
        row
        for times in (FIRST_SET, SECOND_SET)
        for likeness in LIKENESS
        for row in scene(times, likeness, requests, turns)
    ]

"""Benchmark of the p99 that `kwiken size` promises, beside the p99 that its sizes then have.

In generated services with heavy tails and pauses (`benchmarks.sizes.paused_world`) a short recording is
sized for a p99 in two ways:

- **same requests**: sizes are checked on the recorded requests that they were searched on;
- **other half**: sizes are searched on blocks of the recorded requests and checked on the others.

Each answer then runs in the world, on fresh requests. What the result is above the promise has two parts:

- **chance**: the recorded requests show these sizes better than others would. It is the difference to the
  promise for the same sizes from a long recording, which no size was chosen by;
- **the model**: the long recording's promise differs from the result too, as the world is not the load model.

Rules, fixed before the first run:

1. Services 9200 to 9219, 500 recorded requests each; the rate is that of the recording. A result is the p99
   of 20,000 fresh requests.
2. The target of a service is the p99 of its recorded sizes on fresh requests. A service counts
   where both ways meet the target by their own check.
3. The bias is the mean of log(result / promise), and the spread its standard deviation, both as a percentage.
4. The other half is kept if its bias is nearer to 0. The part by chance is shown, and decides nothing.

These seeds are fresh. In two services of a first run, 9100 and 9101, copies fed on themselves, as the world
paid for any number of copies; the run was ended, and the world got an account.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.harness import Row
from benchmarks.sizes.paused_world import RECORDED_REPLICAS, PausedWorld, WorldSize, sizes_in_world
from kwiken.allocator.capacity import MAX_REISSUE
from kwiken.allocator.capacity.halves import RecordedHalves
from kwiken.allocator.capacity.outcomes import SizeOutcome, in_two_steps, reached, start_with_given
from kwiken.allocator.capacity.search import Search
from kwiken.allocator.capacity.study import VERIFY_SEED
from kwiken.allocator.capacity.supply import Supply
from kwiken.allocator.capacity.trials import FIXED_LEVEL, StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.base.arrays import Floats
from kwiken.model.profile import Profile, costs
from kwiken.model.service import Reissue
from kwiken.tail.queueing.load import LoadModel, load_model

SEEDS, QUICK_SEEDS = range(9200, 9220), range(9000, 9002)
RECORDED, LONG, RESULT = 500, 5000, 20_000  # requests of a recording, of a long one and of a result
SAME, OTHER = "same requests", "other half"
OFF = 0.15  # relative error above which a promise counts as missed
P99 = 99
MIN_SERVICES = 2  # a spread needs two


@dataclass(frozen=True)
class _Answer:
    """One way: its promise, that of a long recording for the same sizes, and the result, milliseconds.

    Attributes:
        cost: cores of all replicas.
        took_s: processor time of the sizing, seconds.
    """

    promise_ms: float
    long_ms: float
    result_ms: float
    cost: float
    took_s: float


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    seeds = QUICK_SEEDS if quick else SEEDS
    with ProcessPoolExecutor(min(len(seeds), os.cpu_count() or 1)) as pool:
        found = []
        for seed, answers in zip(seeds, pool.map(_answers, seeds), strict=True):
            told = "; ".join(f"{name} {_described(answer)}" for name, answer in answers.items())
            print(f"  service {seed}: {told}", flush=True)
            found.append(answers)
    met = [
        {name: one for name, one in answers.items() if one is not None}
        for answers in found
        if all(one is not None for one in answers.values())
    ]
    rows = [Row(name="services that both ways meet the target of", ours=float(len(met)), unit="services")]
    if len(met) < MIN_SERVICES:
        return rows
    errors = {name: np.log([one[name].result_ms / one[name].promise_ms for one in met]) for name in met[0]}
    chance = {name: np.log([one[name].long_ms / one[name].promise_ms for one in met]) for name in met[0]}
    rows.append(_bias(errors))
    rows += [row for name in errors for row in _rows(name, errors[name], chance[name])]
    dearer = np.mean(np.log([one[OTHER].cost / one[SAME].cost for one in met]))
    longer = np.median([one[OTHER].took_s / one[SAME].took_s for one in met])
    rows += [
        Row(name=f"cost, {OTHER} beside {SAME}", ours=_percent(float(dearer)), unit="% more"),
        Row(name=f"time, {OTHER} beside {SAME}", ours=float(longer), unit="times", target=2.0),
    ]
    return rows


def _bias(errors: dict[str, Floats]) -> Row:
    ours, theirs = (abs(float(errors[name].mean())) for name in (OTHER, SAME))
    return Row(
        name=f"bias of a promise, {OTHER}",
        ours=_percent(ours),
        unit="%",
        met=ours < theirs,
        alternative=SAME,
        theirs=_percent(theirs),
        ratio=theirs / max(ours, 1e-9),
    )


def _rows(name: str, errors: Floats, chance: Floats) -> list[Row]:
    return [
        _mean(f"{name}: result above the promise, in the mean", errors),
        _mean(f"{name}: part of that by chance", chance),
        Row(name=f"{name}: spread of that", ours=_percent(float(errors.std(ddof=1))), unit="%"),
        Row(
            name=f"{name}: results more than {OFF:.0%} above the promise",
            ours=100.0 * float((errors > np.log1p(OFF)).mean()),
            unit="% of services",
        ),
    ]


def _mean(name: str, errors: Floats) -> Row:
    """Mean over services, with a 95% interval from resampled services."""
    resampled = np.random.default_rng(0).choice(errors, (2000, len(errors))).mean(axis=1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    spread = (_percent(float(low)), _percent(float(high)))
    return Row(name=name, ours=_percent(float(errors.mean())), unit="%", spread=spread)


def _percent(log_ratio: float) -> float:
    return 100.0 * float(np.expm1(log_ratio))


def _described(answer: _Answer | None) -> str:
    if answer is None:
        return "target not met"
    return (
        f"{answer.cost:g} cores, promised {answer.promise_ms:.4g} ms ({answer.long_ms:.4g} of a "
        f"long recording), got {answer.result_ms:.4g} ms"
    )


def _answers(seed: int) -> dict[str, _Answer | None]:
    """Both ways for one service."""
    drawing, recording, longer, before, *after = np.random.default_rng([seed, 33]).spawn(6)
    world = PausedWorld.drawn(drawing)
    profile = world.recording(RECORDED, recording)
    model = load_model(world.recording(LONG, longer), seed=seed)
    recorded = world.run([WorldSize(RECORDED_REPLICAS)] * len(world.stages), RESULT, before)
    target_ms = float(np.percentile(recorded.latency_ms, P99))
    ways = {SAME: RecordedHalves.same(profile), OTHER: RecordedHalves.of(profile)}
    found: dict[str, _Answer | None] = {}
    for (name, halves), rng in zip(ways.items(), after, strict=True):
        since = time.process_time()
        met = _sized(profile, world.rate_per_s, target_ms, halves, seed)
        took_s = time.process_time() - since
        found[name] = None
        if met is not None:
            policies = _policies(met)
            sizes = sizes_in_world([size.replicas for size in met.sizes], policies)
            result = world.run(sizes, RESULT, rng)
            p99_ms = float(np.percentile(result.latency_ms, P99))
            long_ms = _promise(model, world.rate_per_s, met, policies, seed)
            found[name] = _Answer(met.p99_ms, long_ms, p99_ms, met.cost, took_s)
    return found


def _sized(
    profile: Profile, rate_per_s: float, target_ms: float, halves: RecordedHalves, seed: int
) -> SizeOutcome | None:
    """Sizes as `kwiken size` finds them, with the requests of either side given."""
    supply = Supply([stage.name for stage in profile.stages], {}, None)
    trials = StageTrials(load_model(profile, seed=seed), rate_per_s, supply, seed=seed, halves=halves)
    search = Search(trials, costs(profile), MAX_REISSUE)
    cheapest = in_two_steps(search, start_with_given(search))
    return reached(trials, cheapest, target_ms, seed=seed + VERIFY_SEED)[0]


def _policies(outcome: SizeOutcome) -> dict[int, Reissue]:
    """Policies of the copies by position of a stage."""
    found = {place: outcome.trials.policy(place, size) for place, size in enumerate(outcome.sizes)}
    return {place: policy for place, policy in found.items() if policy is not None}


def _promise(
    model: LoadModel, rate_per_s: float, outcome: SizeOutcome, policies: dict[int, Reissue], seed: int
) -> float:
    """p99 that another recording promises for the same sizes, milliseconds."""
    trials = StageTrials(
        model,
        rate_per_s,
        outcome.trials.supply,
        seed=seed,
        halves=RecordedHalves.same(model.profile),
    )
    trials.give(policies)
    sizes = tuple(
        replace(size, level=FIXED_LEVEL if place in policies else 0)
        for place, size in enumerate(outcome.sizes)
    )
    verified = verify(trials, sizes, seed=seed + VERIFY_SEED)
    return float("nan") if verified is None else verified.p99_ms

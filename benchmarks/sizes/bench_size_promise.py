"""Benchmark of the p99 that `kwiken size` promises, beside the p99 that its sizes then have.

Generated services with heavy tails, bursts and pauses (`benchmarks.sizes.paused_world`) are recorded for a
short and for a longer time, and sized for a p99 by each recording. The sizing is told what an operator knows,
as in a file of `--queues`: how calls find replicas, and that nothing is cancelled. Each answer then runs in
the world, on fresh requests. What the result is above the promise has two parts:

- **the recording**: it shows these sizes better than another would. It is the difference to the promise for
  the same sizes from a recording of 20,000 requests, which no size was chosen by;
- **the model**: the promise of that recording differs from the result too; the world is not the load model.

Rules, fixed before the run:

1. Services 9500 to 9519; recordings of 500 and of 3,000 requests. The rate is that of the recording. A result
   is the p99 of 100,000 fresh requests.
2. The target of a service is the p99 of its recorded sizes on fresh requests. A service counts where its
   recording leads to sizes that meet the target by their own check.
3. A promise is honest where the median of result / promise is from 0.87 to 1.15. That is asked of the
   recordings of 3,000 requests: 500 last three seconds, in which many services have no pause that shows.
4. The bias is the mean of log(result / promise), and the spread its standard deviation, both as a percentage.
5. A target that is called met, by the margin of 15%, is kept where the result is at most 15% above it.

These seeds are fresh. The rules of the sizing were chosen on services 9400 to 9439.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from benchmarks.harness import Row
from benchmarks.sizes.paused_world import RECORDED_REPLICAS, PausedWorld, WorldSize, sizes_in_world
from benchmarks.sizes.sized import CREATED
from kwiken.allocator.capacity.outcomes import SizeOutcome
from kwiken.allocator.capacity.recorded_requests import RecordedHalves
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.study import MARGIN, VERIFY_SEED, UnmetTargetError, study_size
from kwiken.allocator.capacity.trials import FIXED_LEVEL, StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.base.arrays import Floats
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.load.stage_model import LoadModel

SEEDS, QUICK_SEEDS = range(9500, 9520), range(9000, 9002)
RECORDED = (500, 3000)  # requests of a short recording, and of one that promises are asked of
LONG, RESULT = 20_000, 100_000  # requests of a long recording and of a result
QUEUES = QueueSettings(dispatch="envoy", cancel="none")
HONEST = (0.87, 1.15)  # range of the median of result / promise
SURE = 0.95  # probability from which on `kwiken size` calls a target met
P99 = 99
MIN_SERVICES = 2  # a spread needs two


@dataclass(frozen=True)
class _Answer:
    """One sizing: its promise, that of a long recording for the same sizes, and the result, milliseconds.

    Attributes:
        low_ms: least p99 of the promised interval, milliseconds.
        high_ms: largest p99 of that interval, milliseconds.
        target_ms: p99 that was asked for, milliseconds.
        sure: probability that the target is met, by the sizing.
        cost: cores of all replicas.
        took_s: processor time of the sizing, seconds.
    """

    promise_ms: float
    low_ms: float
    high_ms: float
    long_ms: float
    result_ms: float
    target_ms: float
    sure: float
    cost: float
    took_s: float


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    seeds = QUICK_SEEDS if quick else SEEDS
    jobs = list(product(seeds, RECORDED))
    found: dict[int, list[_Answer]] = {requests: [] for requests in RECORDED}
    with ProcessPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
        for (seed, requests), answer in zip(jobs, pool.map(_answer, jobs), strict=True):
            print(f"  service {seed}, {requests} requests: {_described(answer)}", flush=True)
            if answer is not None:
                found[requests].append(answer)
    return [row for requests, answers in found.items() for row in _rows(requests, answers, len(seeds))]


def _rows(requests: int, answers: list[_Answer], services: int) -> list[Row]:
    name = f"{requests:,} requests"
    rows = [Row(name=f"{name}: targets in reach, of {services}", ours=float(len(answers)), unit="services")]
    if len(answers) < MIN_SERVICES:
        return rows
    errors = np.log([one.result_ms / one.promise_ms for one in answers])
    middle, spread = _interval(errors, np.median)
    asked = requests == RECORDED[-1]
    sure = [one for one in answers if one.sure >= SURE]
    return [
        *rows,
        Row(
            name=f"{name}: result / promise, in the median",
            ours=math.exp(middle),
            unit="times",
            target=HONEST[1] if asked else None,
            met=HONEST[0] <= math.exp(middle) <= HONEST[1] if asked else None,
            spread=(math.exp(spread[0]), math.exp(spread[1])),
        ),
        _mean(f"{name}: result above the promise, in the mean", errors),
        _mean(f"{name}: part by the recording", np.log([one.long_ms / one.promise_ms for one in answers])),
        _mean(f"{name}: part by the model", np.log([one.result_ms / one.long_ms for one in answers])),
        Row(name=f"{name}: spread of result / promise", ours=_percent(float(errors.std(ddof=1))), unit="%"),
        _share(
            f"{name}: results more than {MARGIN:.0%} above the promise",
            [error > math.log1p(MARGIN) for error in errors.tolist()],
        ),
        _share(
            f"{name}: results within the promised interval of 95%",
            [one.low_ms <= one.result_ms <= one.high_ms for one in answers],
        ),
        _share(
            f"{name}: results at most {MARGIN:.0%} above the target, all",
            [one.result_ms <= one.target_ms * (1 + MARGIN) for one in answers],
        ),
        Row(name=f"{name}: targets called met", ours=float(len(sure)), unit="services"),
        *(
            [
                _share(
                    f"{name}: results at most {MARGIN:.0%} above the target, of those",
                    [one.result_ms <= one.target_ms * (1 + MARGIN) for one in sure],
                )
            ]
            if sure
            else []
        ),
        Row(name=f"{name}: cores", ours=float(np.mean([one.cost for one in answers])), unit="in the mean"),
        Row(name=f"{name}: processor time", ours=float(np.median([one.took_s for one in answers])), unit="s"),
    ]


def _share(name: str, which: list[bool]) -> Row:
    return Row(name=name, ours=100.0 * float(np.mean(which)), unit="%")


def _mean(name: str, errors: Floats) -> Row:
    mean, (low, high) = _interval(errors, np.mean)
    return Row(name=name, ours=_percent(mean), unit="%", spread=(_percent(low), _percent(high)))


def _interval(errors: Floats, measure: Callable[..., Any]) -> tuple[float, tuple[float, float]]:
    """A measure over services, with a 95% interval from resampled services."""
    resampled = measure(np.random.default_rng(0).choice(errors, (2000, len(errors))), axis=1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    return float(measure(errors)), (float(low), float(high))


def _percent(log_ratio: float) -> float:
    return 100.0 * math.expm1(log_ratio)


def _described(answer: _Answer | None) -> str:
    if answer is None:
        return "target not met"
    return (
        f"{answer.cost:g} cores for {answer.target_ms:.4g} ms, promised {answer.promise_ms:.4g} ms "
        f"({answer.low_ms:.4g} to {answer.high_ms:.4g}; {answer.long_ms:.4g} of a long recording), "
        f"got {answer.result_ms:.4g} ms"
    )


def _answer(job: tuple[int, int]) -> _Answer | None:
    """The sizing of one service by one recording; the service and its target are the same for each."""
    seed, requests = job
    drawing, before, longer, *streams = np.random.default_rng([seed, 33]).spawn(3 + 2 * len(RECORDED))
    recording, after = streams[2 * RECORDED.index(requests) :][:2]
    world = PausedWorld.drawn(drawing)
    recorded = world.run([WorldSize(RECORDED_REPLICAS)] * len(world.stages), RESULT, before)
    target_ms = float(np.percentile(recorded.latency_ms, P99))
    profile = world.recording(requests, recording)
    settings = SizeSettings(
        target_p99_ms=target_ms, rate_per_s=world.rate_per_s, created=CREATED, queues=QUEUES, seed=seed
    )
    since = time.process_time()
    try:
        study = study_size(profile, settings)
    except UnmetTargetError:
        return None
    took_s = time.process_time() - since
    outcome = study.outcome
    policies = _policies(outcome)
    result = world.run(sizes_in_world([size.replicas for size in outcome.sizes], policies), RESULT, after)
    low_ms, high_ms = study.interval_ms
    return _Answer(
        promise_ms=outcome.p99_ms,
        low_ms=low_ms,
        high_ms=high_ms,
        long_ms=_promise(
            load_model(world.recording(LONG, longer), QUEUES, seed=seed), world, outcome, policies, seed
        ),
        result_ms=float(np.percentile(result.latency_ms, P99)),
        target_ms=target_ms,
        sure=study.probability(target_ms),
        cost=outcome.cost,
        took_s=took_s,
    )


def _policies(outcome: SizeOutcome) -> dict[int, Reissue]:
    """Policies of the copies by position of a stage."""
    found = {place: outcome.trials.policy(place, size) for place, size in enumerate(outcome.sizes)}
    return {place: policy for place, policy in found.items() if policy is not None}


def _promise(
    model: LoadModel, world: PausedWorld, outcome: SizeOutcome, policies: dict[int, Reissue], seed: int
) -> float:
    """p99 that another recording promises for the same sizes, milliseconds."""
    trials = StageTrials(
        model,
        world.rate_per_s,
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

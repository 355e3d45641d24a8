"""Benchmark of sizing on the live search service: promises beside results, on this machine.

1. Learn: the service as it is defined, paused in bursts as in the demo, under a load that fits the machine.
2. Size replicas alone for a target: the p99 that they reach at twice the cost of the cheapest sizes that can
   serve. Then size replicas and reissues together, for the same target and at the same cost, and for half
   more of each.
3. Run each answer as `kwiken up --placement --plan` does, and load them in turn.

Rules, fixed before the run:

1. A promise is kept where the result is within 15% of it. Kept in the median: the median over the answers of
   the distance between result and promise, as a share of the promise, is at most 15%.
2. A promise counts as met, by non-inferiority, where the result is at most 15% above it at the end of the
   result's 95% interval.

Where the requests that met no pause have nearly the same p99 as all, the tail is that of the machine, and
the sizes have no say in it. A run on a machine that is too slow or too busy tells nothing, and is counted as
such. It takes 33 minutes, whatever the rate, and longer where blocks are repeated: at 5 requests a second
2,000 requests are learned from, and 1,300 measured of each answer.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.harness import Row
from benchmarks.sizes.live_arms import GRACE_S, Documents, Measured, compare, learn
from benchmarks.sizes.sized import CREATED, MIN_SAVING, least_p99, percent_less, study_beside_replicas
from kwiken.allocator.capacity.documents import placement_of, plan_of
from kwiken.allocator.capacity.outcomes import SizeOutcome
from kwiken.allocator.capacity.settings import SizeSettings
from kwiken.allocator.capacity.study import study_size
from kwiken.allocator.capacity.verification import verify
from kwiken.apps.console.output import progress
from kwiken.apps.demo.pace.attempt import InconclusiveRunError
from kwiken.apps.demo.pace.health import MAX_UNREST
from kwiken.apps.demo.pace.rate_search import Pace
from kwiken.apps.demo.progress import TerminalWatch
from kwiken.apps.demo.setup.folder import Folder
from kwiken.apps.demo.setup.load import write_queries
from kwiken.apps.demo.setup.settings import TARGET, DemoSettings
from kwiken.apps.demo.site import Site
from kwiken.apps.report.model.statistics import cut_with_interval
from kwiken.base.arrays import Floats
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.tail.simulation.expectation import BlockBootstrap, interval

ALONE, SAME_TARGET, SAME_COST = "replicas alone", "together, same target", "together, same cost"
MORE_COST, HIGHER_TARGET = "together, more cost", "together, a higher target"
MORE = 1.5  # that cost, and that target, as a multiple of the others'
SEED = 34  # a fresh one since pauses are simulated, and there are five answers
LEARNED_S, MEASURED_S = 400.0, 265.0  # time of load that is learned from, and of each answer
BLOCK_S = 45.0
QUICK_LEARNED_S, QUICK_MEASURED_S, QUICK_BLOCK_S = 10.0, 10.0, 6.0
P99 = 3  # position of p99 in a ladder
MAX_ERROR = 15.0  # % by which a p99 may differ from the promised one
NON_INFERIORITY = 15.0  # % by which p99 may be higher than that of replicas alone, at the end of its interval
# Whole cores alone: slower ones are played by quotas, and the calls are shorter than a quota's period.
NODES = """
[[classes]]
name = "whole-cores"
cores = 4
memory_gb = 4
speed = 1.0
cost_per_hour = 4.0

[[nodes]]
name = "node"
class = "whole-cores"
count = 16
"""


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    with tempfile.TemporaryDirectory() as scratch, progress("size_live") as bar:
        settings = DemoSettings(
            seconds=None, rate=None, budget=0.0, seed=SEED, calm=False, out=Path(scratch) / "learned"
        )
        try:
            return asyncio.run(_run(settings, TerminalWatch(bar), Path(scratch), quick=quick))
        except InconclusiveRunError as error:
            print(f"  {error}", file=sys.stderr)
            return [Row(name="runs without a result", ours=1.0, unit="runs")]


async def _run(settings: DemoSettings, watch: TerminalWatch, scratch: Path, *, quick: bool) -> list[Row]:
    watch.step("reading the library", 0)
    await write_queries(scratch / "queries.txt", SEED)
    folder = Folder.make(settings.out)
    watch.step("starting the service", 0)
    learning = ClusterSettings(traces=str(folder.traces), trace="all", grace_s=GRACE_S)
    async with Cluster(TARGET, learning) as cluster:
        site = Site(settings, cluster, watch, folder, scratch)
        pace, (since_s, until_s) = await learn(site, QUICK_LEARNED_S if quick else LEARNED_S)
    watch.step("sizing", 0)
    profile = await asyncio.to_thread(fit_profile, [folder.traces], since_s=since_s, until_s=until_s)
    sized, documents = await asyncio.to_thread(_sized, profile, pace, scratch)
    found = await compare(
        site,
        documents,
        pace,
        measured_s=QUICK_MEASURED_S if quick else MEASURED_S,
        block_s=QUICK_BLOCK_S if quick else BLOCK_S,
    )
    folder.release()
    return _rows(sized, found)


def _sized(
    profile: Profile, pace: Pace, scratch: Path
) -> tuple[dict[str, SizeOutcome], dict[str, Documents]]:
    """The answers that are to run, and their documents."""
    cluster = nodes_from_toml(NODES, where="the benchmark's nodes")
    study, known, arms = study_beside_replicas(profile, pace.rate, SEED, cluster)
    found = next(arm.at_target for arm in arms if arm.name == "replicas alone")
    alone = known if found is None or known.cost <= found.cost else found
    sized = {ALONE: alone, SAME_TARGET: study.outcome, SAME_COST: least_p99(study, alone.cost, SEED)}
    sized[MORE_COST] = least_p99(study, MORE * alone.cost, SEED)
    higher = SizeSettings(
        target_p99_ms=MORE * known.p99_ms, rate_per_s=pace.rate, created=CREATED, cluster=cluster, seed=SEED
    )
    sized[HIGHER_TARGET] = study_size(profile, higher).outcome
    nodes = scratch / "nodes.toml"
    nodes.write_text(NODES, encoding="utf-8")
    documents = {}
    for number, (arm, outcome) in enumerate(sized.items()):
        trials, sizes = outcome.trials, outcome.sizes
        placement, plan = scratch / f"placement-{number}.json", scratch / f"plan-{number}.json"
        placed = placement_of(trials, sizes, verified=outcome.verified, target_ms=known.p99_ms)
        placement.write_text(placed.to_json(), encoding="utf-8")
        plain = verify(trials, sizes, seed=SEED, copies=False)
        assert plain is not None  # without copies nothing overloads a stage
        planned = plan_of(
            trials, sizes, costs(profile), before=plain, after=outcome.verified, created=CREATED
        )
        plan.write_text(planned.to_json(), encoding="utf-8")
        documents[arm] = Documents(nodes, placement, plan)
        told = " ".join(
            f"{name}={size.replicas}{'*' if trials.policy(stage, size) is not None else ''}"
            for stage, (name, size) in enumerate(zip(trials.names, sizes, strict=True))
            if size.replicas
        )
        print(f"  {arm}: {told}", file=sys.stderr)
    print("  * with copies", file=sys.stderr)
    return sized, documents


def _rows(sized: Mapping[str, SizeOutcome], found: Mapping[str, Measured]) -> list[Row]:
    rows, errors, kept = [], [], 0
    for arm, outcome in sized.items():
        measured = found[arm]
        p99_ms, (low, high) = _p99_ms(measured.data.gateway_ms)
        promised = outcome.p99_ms
        errors.append(-percent_less(p99_ms, promised))
        kept += high <= promised * (1 + NON_INFERIORITY / 100)
        rows += [
            Row(name=f"{arm}: cost in an hour", ours=outcome.cost, unit="cores"),
            Row(
                name=f"{arm}: p99 at the gateway",
                ours=p99_ms,
                unit="ms",
                met=abs(percent_less(p99_ms, promised)) <= MAX_ERROR,
                alternative="promised",
                theirs=promised,
                ratio=promised / p99_ms,
                spread=(promised / high, promised / low),
            ),
            Row(name=f"{arm}: copies of calls", ours=100.0 * measured.copied, unit="%"),
        ]
    rows += [
        Row(
            name=f"result and promise apart, in the median of {len(errors)}",
            ours=float(np.median(np.abs(errors))),
            unit="%",
            target=MAX_ERROR,
        ),
        Row(
            name=f"result above promise, in the median of {len(errors)}",
            ours=float(np.median(errors)),
            unit="%",
        ),
        Row(
            name=f"promises met: at most {NON_INFERIORITY:g}% above at the end of the interval",
            ours=float(kept),
            unit="answers",
        ),
    ]
    unrest_ms = float(np.percentile(found[ALONE].undisturbed_ms, 99))
    tail_ms = float(np.percentile(found[ALONE].data.gateway_ms, 99))
    lower, equal = _cut(found[ALONE], found[SAME_COST]), _cut(found[ALONE], found[SAME_TARGET])
    saved = percent_less(sized[SAME_TARGET].cost, sized[ALONE].cost)
    rows += [
        _saving(f"{SAME_COST}: p99 lower than that of {ALONE}", lower, met=lower["cut"] >= MIN_SAVING),
        _saving(f"{SAME_TARGET}: p99 lower than that of {ALONE}", equal),
        Row(
            name=f"{SAME_TARGET}: cost saved, p99 at most {NON_INFERIORITY:g}% higher",
            ours=saved,
            unit="%",
            target=MIN_SAVING,
            met=saved >= MIN_SAVING and equal["low"] >= -NON_INFERIORITY,
        ),
        Row(
            name=f"{ALONE}: p99 of the requests that met no pause, which is the machine's own",
            ours=unrest_ms,
            unit="ms",
            target=MAX_UNREST * tail_ms,
        ),
        Row(
            name="requests that failed",
            ours=float(sum(one.data.failed + one.data.dropped for one in found.values())),
            unit="requests",
            target=0.0,
        ),
    ]
    return rows


def _p99_ms(latency_ms: Floats) -> tuple[float, tuple[float, float]]:
    """p99 of requests in order of time, with its interval from resampled blocks of time, milliseconds."""
    resampled = BlockBootstrap(len(latency_ms), seed=SEED).percentiles(latency_ms)[:, P99]
    return float(np.percentile(latency_ms, 99)), interval(resampled)


def _cut(base: Measured, other: Measured) -> dict[str, float]:
    """By how much the p99 at the client is lower than a base, %, with its interval."""
    found = cut_with_interval(base=base.data.series(), other=other.data.series(), seed=SEED)
    return {name: 100.0 * value for name, value in found.items()}


def _saving(name: str, cut: Mapping[str, float], *, met: bool | None = None) -> Row:
    return Row(
        name=name,
        ours=cut["cut"],
        unit="%",
        target=None if met is None else MIN_SAVING,
        met=met,
        spread=(cut["low"], cut["high"]),
    )

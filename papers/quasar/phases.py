"""Phase changes found before they hurt, by the work of requests: section 3.8 of Quasar."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.adaptation.actions import Revision
from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.watch import WINDOW_S, Observation
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Target, Workload
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.figures.rows import Part
from papers.figures.tables import StatedRow, level, study
from papers.worlds.schedulers.names import scheduler

WORKLOADS: Final = 25  # by seed and case
MINUTES: Final = (0, 2, 10, 30)  # that a change takes; 0 is from one request to the next
NEVER: Final = -1  # in place of minutes: no change
AFTER_MIN: Final = 5  # minutes that are watched beyond a change
STEADY_MIN: Final = 30  # minutes that are watched where nothing changes
LEARNED_MIN: Final = 3  # minutes before a change
NOISE: Final = 0.02  # log units, of latencies and of the work in a window
DEVIATION: Final = 0.085  # log units, of predictions: composed error of section 3.4
TARGET_MS: Final = 10.0
WORK_MS: Final = 5.0  # of a request before the change
RATE_OF_CORE: Final = 100.0  # requests per second within the target
CORES: Final = (1.0, 2.0, 4.0, 8.0)
SCHEDULER: Final = "quasar"
OPERATED: Final = (
    "work of requests in operation; the source injects contention, and has one value for all changes"
)


@dataclass(frozen=True, kw_only=True)
class PhaseRun:
    """Outcome of one workload of a run.

    Attributes:
        in_time: whether that was before the p99 was above the target.
        hurt: whether the p99 was above the target at any time.
    """

    revised: bool
    in_time: bool
    hurt: bool


def phase(minutes: int, rng: np.random.Generator) -> PhaseRun:
    """Watch one workload whose requests become more work at a steady pace.

    The p99 is that of a queue with one server (section 3.11) whose capacity falls as the work rises. The work
    rises by 30% to 100%, at a load of 70% to 100% of the one that the target is for.

    Args:
        minutes: time that the change takes; `NEVER` for no change.
    """
    required = float(rng.uniform(100.0, 700.0))
    load = required * float(rng.uniform(0.7, 1.0))
    factor = float(rng.uniform(1.3, 2.0)) if minutes != NEVER else 1.0
    adaptation = _placed(required)
    revised = in_time = hurt = False
    lasts_min = LEARNED_MIN + minutes + AFTER_MIN if minutes != NEVER else STEADY_MIN
    for window in range(round(60 * lasts_min / WINDOW_S)):
        now_s = window * WINDOW_S
        since_s = now_s - 60.0 * LEARNED_MIN
        progress = min(1.0, max(0.0, since_s / (60.0 * minutes))) if minutes > 0 else float(since_s >= 0)
        work = 1.0 + (factor - 1.0) * progress
        cores = math.fsum(cores for _, _, cores in adaptation.keys["w"])
        spare = math.log(100) / (TARGET_MS / 1e3) + RATE_OF_CORE * cores / work - load
        noise = np.exp(rng.normal(0.0, NOISE, size=2))
        p99_ms = min(1e5, 1e3 * math.log(100) / max(spare, 1e-3)) * float(noise[0])
        hurt = hurt or p99_ms > TARGET_MS
        seen = Observation(
            requests=round(load * WINDOW_S),
            rate_per_s=load,
            p99_ms=p99_ms,
            work_ms=WORK_MS * work * float(noise[1]),
        )
        actions = adaptation.observe(now_s, {"w": seen})
        if not revised and any(isinstance(action, Revision) for action in actions):
            revised, in_time = True, not hurt
    return PhaseRun(revised=revised, in_time=in_time, hurt=hurt)


def found(minutes: int, seed: int) -> tuple[float, float]:
    """Percent of the workloads whose change was found before it hurt, and of those whose target was missed.

    Without a change, the first is the percentage of false alarms.

    Args:
        minutes: time that the change takes; `NEVER` for no change.
    """
    rng = np.random.default_rng([seed, minutes - NEVER])
    phases = [phase(minutes, rng) for _ in range(WORKLOADS)]
    told = sum(one.in_time if minutes != NEVER else one.revised for one in phases)
    return 100 * told / WORKLOADS, 100 * sum(one.hurt for one in phases) / WORKLOADS


def _changes() -> Iterator[StatedRow]:
    """Rows, by the time that a change takes."""
    for minutes in MINUTES:
        over = "at once" if minutes == 0 else f"over {minutes} minutes"
        metric = f"change {over}: found before the target is missed, %"
        yield level("Section 3.8", metric, (minutes, 0), "78", OPERATED)
        yield level("Section 3.8", f"change {over}: target missed at any time, %", (minutes, 1))
    metric = "false alarms in half an hour, % of workloads"
    yield level("Section 3.8", metric, (NEVER, 0), "8", OPERATED)


def phases(seeds: int) -> tuple[Part, ...]:
    """Part on phase changes."""
    return (study("phases", found, seeds, _changes(), cases=(*MINUTES, NEVER)),)


def _placed(required: float) -> Adaptation:
    """A workload on nodes with room to grow."""
    kind = NodeClass(name="node", cores=CORES[-1], memory_gb=64.0)
    cluster = Cluster((kind,), tuple(Node(f"node-{number}", kind.name) for number in range(4)))
    workload = Workload(name="w", memory_gb=1.0, target=Target(p99_ms=TARGET_MS, rate_per_s=required))
    request = request_for(workload, _profile(), cluster, Caution(later_loss=0.0))
    chosen = scheduler(SCHEDULER)
    admissions = admit_all([request], NodeLedger(cluster), chosen)
    placement = document(cluster, admissions, scheduler=SCHEDULER, confidence=request.caution.confidence)
    return Adaptation([request], cluster, placement, chosen)


def _profile() -> WorkloadProfile:
    def known(values: list[float]) -> Estimate:
        return Estimate(np.array(values), np.zeros(len(values)))

    counts = np.arange(1, 5)
    return WorkloadProfile(
        name="w",
        measure=Measure.RATE,
        base=RATE_OF_CORE * CORES[-1],
        base_deviation=DEVIATION,
        sizes=tuple(Size(cores, 1.0) for cores in CORES),
        up=known([math.log(cores / CORES[-1]) for cores in CORES]),
        replicas=counts,
        out=known(np.log(counts).tolist()),
        classes=("node",),
        het=known([0.0]),
        tolerated=known([1.0] * len(SOURCES)),
        caused=known([0.0] * len(SOURCES)),
    )

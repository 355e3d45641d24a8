"""Entry of a probed stage in a measurements document, as TOML."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from kwiken.allocator.contention.ramp import Scores
from kwiken.allocator.contention.stage_plan import ProbeSetting
from kwiken.allocator.workloads.workload import MAX_WORK_VARIATION, Measure
from kwiken.base.arrays import Floats

MEDIAN_WIDENING: Final = 1.25  # of a median's standard error over a mean's, where errors are normal
SHARED_ROUNDS: Final = 3.0  # rounds that the spread of all settings together counts for in each setting's own

MIN_CALLS_FOR_VARIATION: Final = 30  # calls below which the variation of their work is not told
MAX_RUN_DEVIATION: Final = 1.0  # above, only that nothing is known of the ratio

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORKLOADS = re.compile(r"^\[\[workloads\]\]", re.MULTILINE)


@dataclass(frozen=True)
class MeasuredRun:
    """Performance of a stage at one setting.

    Attributes:
        performance: calls per second of all replicas together.
        deviation: standard deviation of the performance relative to the reference's, as a share.
    """

    setting: ProbeSetting
    performance: float
    deviation: float


@dataclass(frozen=True)
class StageProbe:
    """Measurements of a stage.

    Attributes:
        runs: settings with their performance, the reference first.
        scores: by source of contention, what the stage tolerates and causes.
        rough: sources whose kernels did not come near a line when they were calibrated.
        played_by: what played sizes and classes of nodes, in words.
        work_variation: coefficient of variation of the processor time of calls, 0 or more; None where it
            could not be told.
    """

    runs: tuple[MeasuredRun, ...]
    scores: Mapping[str, Scores]
    rough: tuple[str, ...] = ()
    played_by: str = ""
    work_variation: float | None = None


def variation_of(calls: int, total: float, squares: float) -> float | None:
    """Coefficient of variation from sums over calls; None below `MIN_CALLS_FOR_VARIATION` calls.

    Args:
        calls: number of calls in the sums.
        total: sum of their work, in any unit.
        squares: sum of the squares of their work, in that unit squared.
    """
    if calls < MIN_CALLS_FOR_VARIATION or total <= 0:
        return None
    mean = total / calls
    return math.sqrt(max(0.0, squares / calls - mean**2)) / mean


def measured_runs(settings: Sequence[ProbeSetting], rounds: Floats) -> tuple[MeasuredRun, ...]:
    """Performance of settings that were measured in turns, relative to the reference around them in time.

    A setting's ratio to the reference is the median over the rounds: a round in which another program was
    busy does not count. Few rounds tell little of their spread, so that the spread of all settings counts
    too.

    Args:
        settings: (n,) the reference, then the other settings.
        rounds: (r, n + 1) performance in r rounds, above 0: each setting once, and the reference again.
    """
    logs = np.log(rounds)
    reference = logs[:, [0, -1]].mean(axis=1)
    ratios = logs[:, :-1] - reference[:, None]
    ratios[:, 0] = 0.0
    base = float(np.median(reference))
    squares = ((ratios - ratios.mean(axis=0)) ** 2).sum(axis=0)
    freedom = len(rounds) - 1
    shared = squares[1:].mean() / max(freedom, 1) if len(settings) > 1 else 0.0
    variances = (SHARED_ROUNDS * shared + squares) / (SHARED_ROUNDS + freedom)
    deviations = MEDIAN_WIDENING * np.sqrt(variances / len(rounds))
    deviations = np.minimum(deviations, MAX_RUN_DEVIATION)
    deviations[0] = 0.0  # relative to itself
    performances = np.exp(base + np.median(ratios, axis=0))
    return tuple(
        MeasuredRun(setting, performance, deviation)
        for setting, performance, deviation in zip(
            settings, performances.tolist(), deviations.tolist(), strict=True
        )
    )


def workload_entry(name: str, found: StageProbe) -> str:
    """The table `[[workloads]]` of a stage."""
    lines = ["[[workloads]]", f"name = {_quoted(name)}", f'measure = "{Measure.CAPACITY.value}"']
    if found.work_variation is not None:
        lines.append(f"work_variation = {min(found.work_variation, MAX_WORK_VARIATION):.3g}")
    lines.append("runs = [")
    for run in found.runs:
        setting = run.setting
        told = (
            f"cores = {setting.size.cores:g}, memory_gb = {setting.size.memory_gb:g}, "
            f"replicas = {setting.replicas}, class = {_quoted(setting.node_class)}"
        )
        lines.append(f"  {{ {told}, performance = {run.performance:.5g}, deviation = {run.deviation:.3g} }},")
    lines.append("]")
    for field in ("tolerated", "caused", "tolerated_deviation", "caused_deviation"):
        scores = [f"{_key(source)} = {getattr(each, field):.3g}" for source, each in found.scores.items()]
        lines.append(f"{field} = {{ {', '.join(scores)} }}")
    return "\n".join(lines) + "\n"


def without_workloads(text: str) -> str:
    """Head of a TOML document of measurements: reference and history, without the workloads at its end."""
    found = _WORKLOADS.search(text)
    return text if found is None else text[: found.start()]


def appended(text: str, entries: Sequence[str]) -> str:
    """A TOML document with further tables at its end."""
    return "\n".join([text.rstrip() + "\n", *entries])


def _quoted(words: str) -> str:
    """A TOML basic string: JSON's escapes are all TOML's."""
    return msgspec.json.encode(words).decode()


def _key(name: str) -> str:
    return name if _BARE.match(name) else _quoted(name)

"""Shape of the DAGs, and effect of reissues on single stages: Figures 2.2 to 2.5 and Equation 5.2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from kwiken.base.arrays import Floats
from kwiken.tail.diagnosis.blamed_stages import characterise
from papers.figures.rows import FigureRow, Plot, PlotSeries, RowKind, percent, row
from papers.kwiken.trial.dag_trial import DagTrial

HEAVY_TAIL_RATIO = 10.0  # p99 over median from which a tail counts as heavy
SOME_REISSUED, MANY_REISSUED = 0.1, 0.5  # shares of calls reissued at which the source describes its curves
MIN_STAGES_OF_LONG_PATH = 10  # number of stages from which a path counts as long
SYNTHETIC = "synthetic DAGs; the source's are production traces"
POINTS = 60  # points of a drawn distribution


@dataclass(frozen=True)
class Shape:
    """Statistics of one DAG for Figures 2.2 to 2.5; the last six hold one value per stage.

    Attributes:
        effective_path: mean number of effective stages on a critical path.
        in_degree: median in-degree of the effective stages.
        most_in: largest in-degree of all stages.
        most_out: largest number of children of a stage.
        longest: number of stages on the longest path.
        tail_ratio: p99 over median of whole requests.
        p95_ratio: p95 over median of whole requests.
        bound: variance of whole requests over the sum of the stages' variances.
        stage_tails: p99 over median.
        left_some: share of the variance left where 10% of the calls are reissued.
        left_many: share of the variance left where 50% of the calls are reissued.
    """

    stages: int
    effective: int
    effective_path: float
    in_degree: float
    most_in: int
    most_out: int
    longest: int
    tail_ratio: float
    p95_ratio: float
    bound: float
    in_degrees: list[int]
    stage_tails: list[float]
    means_ms: list[float]
    sds_ms: list[float]
    left_some: list[float]
    left_many: list[float]


def shape_of(trial: DagTrial, latency_ms: Floats) -> Shape:
    """Statistics of a trial's DAG.

    Args:
        latency_ms: (n,) latencies of its judged requests without reissues.
    """
    found = characterise(trial.stages, trial.test, latency_ms)
    median, p95 = np.percentile(latency_ms, (50, 95)).tolist()
    children = [sum(stage.name in other.after for other in trial.stages) for stage in trial.stages]
    depth: dict[str, int] = {}
    for stage in trial.stages:
        depth[stage.name] = 1 + max((depth[parent] for parent in stage.after), default=0)
    curves = [trial.curves[stage.name] for stage in trial.stages]
    return Shape(
        stages=len(trial.stages),
        effective=len(found.effective),
        effective_path=found.effective_per_path,
        in_degree=float(np.median(list(found.in_degree.values()))),
        most_in=max(len(stage.after) for stage in trial.stages),
        most_out=max(children),
        longest=max(depth.values()),
        tail_ratio=found.tail_ratio,
        p95_ratio=p95 / median,
        bound=float(latency_ms.var()) / sum(float(values.var()) for values in trial.test.values()),
        in_degrees=list(found.in_degree.values()),
        stage_tails=list(found.stage_tail_ratio.values()),
        means_ms=[float(curve.mean_ms[0]) for curve in curves],
        sds_ms=[float(np.sqrt(curve.variance[0])) for curve in curves],
        left_some=[curve.hull_at(SOME_REISSUED) / float(curve.variance[0]) for curve in curves],
        left_many=[curve.hull_at(MANY_REISSUED) / float(curve.variance[0]) for curve in curves],
    )


def shape_rows(dags: list[Shape]) -> tuple[FigureRow, ...]:
    """Rows of Figures 2.2 to 2.5 and Equation 5.2."""
    whole = np.array([dag.tail_ratio for dag in dags])
    p95 = np.array([dag.p95_ratio for dag in dags])
    tails = np.concatenate([dag.stage_tails for dag in dags])
    inner = np.concatenate([dag.in_degrees for dag in dags])
    stages = [dag.stages for dag in dags]
    lines = (
        ("2.2", "stages per DAG, median", "14", np.median(stages)),
        ("2.2", "stages per DAG, p90", "81", np.percentile(stages, 90)),
        ("2.2", "effective stages per DAG, median", "4", np.median([d.effective for d in dags])),
        ("2.2", "effective stages per DAG, p90", "18", np.percentile([d.effective for d in dags], 90)),
        (
            "2.2",
            "effective stages on a critical path, median",
            "2.2",
            np.median([d.effective_path for d in dags]),
        ),
        ("2.3", "in-degree of effective stages, median", "2", np.median(inner)),
        ("2.3", "in-degree of effective stages, p90", "9", np.percentile(inner, 90)),
        ("2.3", "largest in-degree of any stage", "up to 40", max(d.most_in for d in dags)),
        ("2.3", "largest out-degree of any stage", "up to 40", max(d.most_out for d in dags)),
        (
            "2.3",
            "DAGs with a path of 10 stages or more, %",
            "20",
            100 * np.mean([d.longest >= MIN_STAGES_OF_LONG_PATH for d in dags]),
        ),
        (
            "2.3",
            "correlation of largest in-degree with number of stages",
            "proportional",
            np.corrcoef([d.most_in for d in dags], stages)[0, 1],
        ),
        ("2.4", "stages with p99 over median >= 10, %", "10", 100 * (tails >= HEAVY_TAIL_RATIO).mean()),
        ("2.4", "DAGs with p99 over median >= 10, %", "10", 100 * (whole >= HEAVY_TAIL_RATIO).mean()),
        (
            "2.4",
            "DAGs with p95 >= 3 or p99 >= 5 times the median, %",
            "above 30",
            100 * ((p95 >= 3) | (whole >= 5)).mean(),  # noqa: PLR2004 - the source's
        ),
    )
    return (
        *(
            row(
                f"Figure {figure}",
                metric,
                round(float(ours), 2),
                source=source,
                note=SYNTHETIC,
                kind=RowKind.INPUT,
            )
            for figure, metric, source, ours in lines
        ),
        *_stage_rows(dags),
    )


def _stage_rows(dags: list[Shape]) -> tuple[FigureRow, ...]:
    means, sds, some, many = (
        np.concatenate([getattr(dag, name) for dag in dags])
        for name in ("means_ms", "sds_ms", "left_some", "left_many")
    )
    note = "the synthetic stages are log-normal, so that none is without gain"
    return (
        row(
            "Figure 2.4",
            "rank correlation of a stage's mean and standard deviation",
            round(float(spearmanr(means, sds).statistic), 3),
            source="grows with the mean, widely scattered",
            note=SYNTHETIC,
        ),
        row(
            "Figure 2.5",
            "stages that lose half their variance or more at 10% of calls reissued, %",
            percent(float((some <= 0.5).mean())),  # noqa: PLR2004 - half
            source="some",
            note=SYNTHETIC,
        ),
        row(
            "Figure 2.5",
            "stages that keep half their variance or more at 50% of calls reissued, %",
            percent(float((many >= 0.5).mean())),  # noqa: PLR2004 - half
            source="others: little gain even at 50%",
            note=note,
        ),
        row(
            "Figure 2.5",
            "rank correlation of a stage's sd over mean with what it loses at 10%",
            round(float(spearmanr(sds / means, 1 - some).statistic), 3),
            source="low mean and high variance gain most",
        ),
        row(
            "Equation 5.2",
            "variance of a DAG over the sum of its stages', most of all DAGs",
            round(max(dag.bound for dag in dags), 3),
            source="at most 1",
            note="above 1 by the error of samples only; chains reach it",
        ),
    )


def shape_plots(dags: list[Shape]) -> tuple[Plot, ...]:
    """Distributions and clouds of Figures 2.2 to 2.5."""
    stages = [dag.stages for dag in dags]
    counts = (_cdf("stages", stages), _cdf("effective stages", [dag.effective for dag in dags]))
    tails = (
        _cdf("stages", [tail for dag in dags for tail in dag.stage_tails]),
        _cdf("DAGs", [dag.tail_ratio for dag in dags]),
    )
    paths = (
        PlotSeries("longest path", stages, [dag.longest for dag in dags], points=True),
        PlotSeries("largest in-degree", stages, [dag.most_in for dag in dags], points=True),
    )
    first = dags[: len(dags) // max(1, len(dags) // 45)]
    scatter = PlotSeries(
        "stages",
        [mean for dag in first for mean in dag.means_ms],
        [sd for dag in first for sd in dag.sds_ms],
        points=True,
    )
    return (
        Plot("Figure 2.2", "stages of a DAG", "stages", "DAGs with at most so many, %", counts, log_x=True),
        Plot("Figure 2.3", "longest path and largest in-degree", "stages of the DAG", "stages", paths),
        Plot("Figure 2.4", "tails", "p99 over median", "with at most that, %", tails, log_x=True),
        Plot("Figure 2.4", "mean and sd of stages", "mean, ms", "sd, ms", (scatter,), log_x=True, log_y=True),
    )


def _cdf(label: str, values: list[float] | list[int]) -> PlotSeries:
    shares = np.linspace(0, 100, POINTS)
    return PlotSeries(label, np.percentile(values, shares).tolist(), shares.tolist())


def curve_plot(trial: DagTrial) -> Plot:
    """Figure 2.5: curves of the stages that gain most, least, and in the middle at 10%."""
    left = {
        name: curve.hull_at(SOME_REISSUED) / float(curve.variance[0]) for name, curve in trial.curves.items()
    }
    ranked = sorted(left, key=left.__getitem__)
    shown = [ranked[round(place)] for place in np.linspace(0, len(ranked) - 1, min(5, len(ranked)))]
    series = []
    for name in dict.fromkeys(shown):
        curve = trial.curves[name]
        mean, sd = float(curve.mean_ms[0]), float(np.sqrt(curve.variance[0]))
        share = [percent(part) for part in curve.fraction.tolist()]
        left_percent = (100 * curve.variance / curve.variance[0]).tolist()
        series.append(PlotSeries(f"mean {mean:.0f} ms, sd {sd:.0f} ms", share, left_percent))
    title = "variance-response curves"
    return Plot("Figure 2.5", title, "calls reissued, %", "variance left, %", tuple(series))

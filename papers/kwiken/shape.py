"""Effect of reissues on single stages, and the variance of DAGs: Figure 2.5 and Equation 5.2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from kwiken.base.arrays import Floats
from papers.figures.rows import FigureRow, Plot, PlotSeries, percent, row
from papers.kwiken.trial.dag_trial import DagTrial

SOME_REISSUED, MANY_REISSUED = 0.1, 0.5  # shares of calls reissued at which the source describes its curves
SYNTHETIC = "synthetic DAGs; the source's are production traces"


@dataclass(frozen=True)
class Shape:
    """Statistics of one DAG; all but the bound hold one value per stage.

    Attributes:
        bound: variance of whole requests over the sum of the stages' variances.
        left_some: share of the variance left where 10% of the calls are reissued.
        left_many: share of the variance left where 50% of the calls are reissued.
    """

    bound: float
    means_ms: list[float]
    sds_ms: list[float]
    left_some: list[float]
    left_many: list[float]


def shape_of(trial: DagTrial, latency_ms: Floats) -> Shape:
    """Statistics of a trial's DAG.

    Args:
        latency_ms: (n,) latencies of its judged requests without reissues.
    """
    curves = [trial.curves[stage.name] for stage in trial.stages]
    return Shape(
        bound=float(latency_ms.var()) / sum(float(values.var()) for values in trial.test.values()),
        means_ms=[float(curve.mean_ms[0]) for curve in curves],
        sds_ms=[float(np.sqrt(curve.variance[0])) for curve in curves],
        left_some=[curve.hull_at(SOME_REISSUED) / float(curve.variance[0]) for curve in curves],
        left_many=[curve.hull_at(MANY_REISSUED) / float(curve.variance[0]) for curve in curves],
    )


def shape_rows(dags: list[Shape]) -> tuple[FigureRow, ...]:
    """Rows of Figure 2.5 and Equation 5.2."""
    means, sds, some, many = (
        np.concatenate([getattr(dag, name) for dag in dags])
        for name in ("means_ms", "sds_ms", "left_some", "left_many")
    )
    note = "the synthetic stages are log-normal, so that none is without gain"
    return (
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

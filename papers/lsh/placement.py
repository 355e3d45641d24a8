"""Applications that keep their QoS, by predictor and by rule of placing, in three data centres."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from papers.figures.rows import FigureRow, Findings, Part, over_seeds
from papers.lsh.accuracy import MEASURED, SplitPopulation, median_row, order_row
from papers.lsh.data_centre import GOOD, CentreOutcome, run_applications
from papers.lsh.population import CONFIGURATIONS, SHARED
from papers.lsh.predictors import PREDICTORS

ARRIVALS: Final = 400
PROFILED: Final = (0, CONFIGURATIONS // 2, CONFIGURATIONS - 1)  # worst, median and best configuration
SCENES: Final = (("default", "high"), ("default", "low"), ("high-end", "high"), ("low-end", "high"))
FIGURES: Final = {
    ("default", "high"): "Figure 3a",
    ("default", "low"): "Figure 3d",
    ("high-end", "high"): "Figure 4a",
    ("low-end", "high"): "Figure 4b",
}
# Predictions that a manager goes by, and its rule. The last three tell what each part is worth.
MANAGERS: Final = {
    "LSH": ("LSH", "tightest fit"),
    "Paragon": ("Paragon", "published Paragon"),
    "kwiken best": ("kwiken best", "tightest fit"),
    "least-loaded": ("", "least-loaded"),
    "all known": ("", "tightest fit"),
    "Paragon's scores, LSH's rule": ("Paragon", "tightest fit"),
    "LSH's scores, Paragon's rule": ("LSH", "published Paragon"),
}
TOLD: Final = {
    ("default", "high"): {"LSH": "45", "Paragon": "38"},
    ("default", "low"): {"LSH": "61", "Paragon": "49"},
    ("high-end", "high"): {"LSH": "47", "Paragon": "40"},
    ("low-end", "high"): {"LSH": "drawn only", "Paragon": "drawn only"},
}
TOLD_USED: Final = {"high": {"LSH": "62", "Paragon": "57"}, "low": {"LSH": "59", "Paragon": "54"}}

Run = dict[str, dict[str, float]]  # by scene and manager: figures by name


def managed(seed: int) -> Run:
    """Figures of every scene and manager for one population; new applications arrive, in random order."""
    trial = SplitPopulation(seed)
    chosen = trial.new[np.random.default_rng([seed, 11]).integers(len(trial.new), size=ARRIVALS)]
    believed = {name: _believed(trial, name) for name in ("LSH", "Paragon", "kwiken best")}
    believed[""] = trial.truth.scores
    found: Run = {}
    for kind, load in SCENES:
        for manager, (predictor, rule) in MANAGERS.items():
            outcome = run_applications(
                trial.truth, believed[predictor], chosen, rule, kind=kind, load=load, seed=seed
            )
            found[f"{kind} {load} {manager}"] = _figures(outcome)
    return found


def _believed(trial: SplitPopulation, predictor: str) -> Floats:
    """(a, c, r, 2) scores of the new applications, from two resources on three configurations."""
    scores = trial.truth.scores.reshape(len(trial.truth.scores), -1)
    each = len(SHARED) * 2
    columns = np.sort(
        [
            configuration * each + 2 * resource + score
            for configuration in PROFILED
            for resource in trial.narrowest[:MEASURED].tolist()
            for score in range(2)
        ]
    ).astype(np.int64)
    believed = scores.copy()
    believed[trial.new] = PREDICTORS[predictor](
        scores[trial.training], columns, scores[trial.new][:, columns]
    )
    return believed.reshape(trial.truth.scores.shape)


def _figures(outcome: CentreOutcome) -> dict[str, float]:
    return {
        "kept": outcome.kept(),
        "good": outcome.kept(GOOD),
        "used": 100 * outcome.used,
        "waited": float(np.mean(outcome.waited_s)),
    }


def _conclude(results: list[list[Run]]) -> Findings:
    (seeds,) = results
    rows: list[FigureRow] = []

    def of(scene: tuple[str, str], manager: str, figure: str) -> list[float]:
        return [each[f"{scene[0]} {scene[1]} {manager}"][figure] for each in seeds]

    for scene in SCENES:
        figure, where = FIGURES[scene], f"{scene[0]} data centre, {scene[1]} load"
        for manager in MANAGERS:
            told = TOLD[scene].get(manager, "")
            rows.append(
                median_row(figure, f"{where}: QoS of 95%, {manager}, %", of(scene, manager, "kept"), told)
            )
        rows += [
            order_row(
                figure,
                f"{where}: QoS of 95%, {first} before {second}",
                zip(of(scene, first, "kept"), of(scene, second, "kept"), strict=True),
            )
            for first, second in (
                ("LSH", "Paragon"),
                ("kwiken best", "LSH"),
                ("Paragon", "least-loaded"),
                ("LSH's scores, Paragon's rule", "Paragon"),
                ("Paragon's scores, LSH's rule", "Paragon"),
            )
        ]
        rows += [
            median_row(figure, f"{where}: mean wait, {manager}, s", of(scene, manager, "waited"))
            for manager in ("LSH", "Paragon", "kwiken best")
        ]
        if scene == ("default", "high"):
            rows += [
                median_row(
                    figure,
                    f"{where}: QoS of 80%, {manager}, %",
                    of(scene, manager, "good"),
                    "60" if manager == "LSH" else "",
                )
                for manager in MANAGERS
            ]
        if scene[0] == "default":
            used = "Figure 3b, 3c" if scene[1] == "high" else "Figure 3e, 3f"
            rows += [
                median_row(
                    used,
                    f"{where}: cores used, {manager}, %",
                    of(scene, manager, "used"),
                    TOLD_USED[scene[1]].get(manager, ""),
                )
                for manager in MANAGERS
            ]
            rows.append(
                order_row(
                    used,
                    f"{where}: cores used, LSH before Paragon",
                    zip(of(scene, "LSH", "used"), of(scene, "Paragon", "used"), strict=True),
                )
            )
    return Findings(tuple(rows))


def placements(seeds: int) -> Part:
    """Part with the placement of applications.

    Args:
        seeds: number of synthetic populations, counted from seed 0.
    """
    return over_seeds(
        "placement", managed, seeds, _conclude, figures=(*FIGURES.values(), "Figure 3b, 3c", "Figure 3e, 3f")
    )

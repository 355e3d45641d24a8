"""Applications that keep their QoS, by predictor and by rule of placing, in three data centres."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from papers.figures.rows import Part
from papers.figures.tables import StatedRow, above, level, order, study
from papers.lsh.accuracy import MEASURED, SEEDED, SplitPopulation
from papers.lsh.data_centre import GOOD, CentreOutcome, run_applications
from papers.lsh.population import CONFIGURATIONS, SHARED
from papers.lsh.predictors import PREDICTORS

ARRIVALS: Final = 400
PROFILED: Final = (0, CONFIGURATIONS // 2, CONFIGURATIONS - 1)  # worst, median and best configuration
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
PAIRS: Final = (
    ("LSH", "Paragon"),
    ("kwiken best", "LSH"),
    ("Paragon", "least-loaded"),
    ("LSH's scores, Paragon's rule", "Paragon"),
    ("Paragon's scores, LSH's rule", "Paragon"),
)
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
    for kind, load in FIGURES:
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


def _rows() -> Iterator[StatedRow]:
    for scene, figure in FIGURES.items():
        kind, load = scene
        where, run = f"{kind} data centre, {load} load", f"{kind} {load}"
        for manager in MANAGERS:
            told, metric = TOLD[scene].get(manager, ""), f"{where}: QoS of 95%, {manager}, %"
            yield level(figure, metric, (f"{run} {manager}", "kept"), told)
        for first, second in PAIRS:
            holds = above((f"{run} {first}", "kept"), (f"{run} {second}", "kept"))
            yield order(figure, f"{where}: QoS of 95%, {first} before {second}", holds, note="")
        for manager in ("LSH", "Paragon", "kwiken best"):
            yield level(figure, f"{where}: mean wait, {manager}, s", (f"{run} {manager}", "waited"))
        if scene == ("default", "high"):
            for manager in MANAGERS:
                told, metric = "60" if manager == "LSH" else "", f"{where}: QoS of 80%, {manager}, %"
                yield level(figure, metric, (f"{run} {manager}", "good"), told)
        if kind == "default":
            used = "Figure 3b, 3c" if load == "high" else "Figure 3e, 3f"
            for manager in MANAGERS:
                told, metric = TOLD_USED[load].get(manager, ""), f"{where}: cores used, {manager}, %"
                yield level(used, metric, (f"{run} {manager}", "used"), told)
            holds = above((f"{run} LSH", "used"), (f"{run} Paragon", "used"))
            yield order(used, f"{where}: cores used, LSH before Paragon", holds, note="")


def placements(seeds: int) -> Part:
    """Part with the placement of applications.

    Args:
        seeds: number of synthetic populations, counted from seed 0.
    """
    return study("placement", managed, seeds, _rows(), note=SEEDED)

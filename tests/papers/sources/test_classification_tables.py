"""Reproduced classification of Paragon and Quasar: generators, orderings, and every table at one seed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from papers.figures.rows import Findings, Part, Reproduction, run
from papers.paragon import tables
from papers.quasar import tables as quasar_tables
from papers.sources import reproduction
from papers.worlds.fleet.generators import CORES, MEMORY_GB, replica_rows, score_rows, size_rows
from papers.worlds.populations.platforms import platform_rows


def test_generators_draw_what_is_specified() -> None:
    rng = np.random.default_rng(0)
    scores = score_rows(rng, 500, 2)
    assert scores.shape == (500, 10)
    assert 0 <= scores.min() < scores.max() <= 1
    platforms = platform_rows(rng, 4000, 1)
    centred = platforms - platforms.mean(axis=1, keepdims=True)
    singular = np.linalg.svd(centred - centred.mean(axis=0), compute_uv=False)
    assert singular[0] > 10 * singular[1]  # one trait, and noise
    sizes = size_rows(rng, 50, 0.0)
    cube = sizes.reshape(50, len(CORES), len(MEMORY_GB))
    assert (np.diff(cube, axis=1) > 0).all()  # more cores are faster
    assert (np.diff(cube, axis=2) >= 0).all()  # more memory is no slower
    speedup = replica_rows(rng, 50, 0.0)
    assert speedup.shape == (50, 100)
    assert np.abs(speedup[:, 0]).max() == 0
    assert (speedup <= np.log(np.arange(1, 101))).all()


def test_decisions_and_sensitivities_repeat_for_a_seed() -> None:
    assert tables.decisions(1, 3) == tables.decisions(1, 3)
    assert tables.sensitivities(3) != tables.sensitivities(4)
    found = tables.decisions(1, 3)
    assert set(found) == set(tables.TABLE_3_1)
    assert found["ranking exactly right, %"] <= found["ranking right but for one neighbouring pair, %"]
    assert found["best platform identified, %"] <= found["chosen platform within 5% of the best, %"]


@pytest.mark.slow
def test_a_joint_world_is_predicted_about_as_well_by_its_four_parts() -> None:
    found = quasar_tables.compare(0)
    joint, parts = (float(np.mean(found[name])) for name in ("exhaustive", "parallel"))
    assert len(found["parallel"]) == quasar_tables.NEW
    assert 0.05 < parts < 0.6
    assert 0.4 < joint / parts < 2.5


def small(name: str, parts: tuple[str, ...]) -> Findings:
    whole = reproduction(name, seeds=1)
    chosen: tuple[Part, ...] = tuple(part for part in whole.parts if part.name in parts)
    assert len(chosen) == len(parts)
    return run(Reproduction(whole.name, whole.title, chosen))


def values(found: Findings) -> dict[str, float]:
    assert all(math.isfinite(row.ours) for row in found.rows)
    return {row.metric: row.ours for row in found.rows}


@pytest.mark.slow
def test_paragon_has_rows_beside_every_value_of_its_tables() -> None:
    found = small("paragon", ("decisions", "sensitivities", "densities"))
    ours = values(found)
    assert {row.figure for row in found.rows} == {"Table 3.1", "Table 3.2", "Section 3.2"}
    assert all(row.source for row in found.rows if row.figure.startswith("Table"))
    for label in ("platforms, rank 1", "scores, rank 2"):
        two = ours[f"error with 2 entries, {label}, fold-in, %"]
        assert two < ours[f"error with 2 entries, {label}, column means, %"] / 2
        assert ours[f"error with 2 entries, {label}, chosen, designed columns, %"] < two
    assert found.plots[0].figure == "Section 3.2"


@pytest.mark.slow
def test_quasar_has_rows_beside_every_value_of_its_tables() -> None:
    found = small("quasar", ("errors", "four nodes", "more entries", "densities", "exhaustive"))
    ours = values(found)
    assert {row.figure for row in found.rows} == {"Table 4.2", "Table 4.3", "Figure 4.3"}
    for kind in ("scale-out", "heterogeneity", "interference"):
        assert ours[f"{kind}, 2 entries, chosen, designed columns, mean over workloads, %"] <= 8
        assert ours[f"{kind}, 2 entries, chosen, designed columns, maximum over workloads, %"] <= 17
    assert (
        ours["scale-up, 5 entries, chosen, designed columns, mean over workloads, %"]
        < ours["scale-up, 3 entries, chosen, designed columns, mean over workloads, %"]
    )

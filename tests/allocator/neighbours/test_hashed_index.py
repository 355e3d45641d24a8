"""Hashed index: the formulas, what is promised of recall, and points that come and go."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from papers.worlds.schedulers.hashed_index import (
    HashedIndex,
    HashFamily,
    collision_probability,
    tables_for,
)


@pytest.mark.parametrize(
    ("distance", "probability"), [(0.5, 0.9003), (1.0, 0.8005), (1.5, 0.7017), (2.0, 0.6095), (3.0, 0.4652)]
)
def test_collision_probabilities_are_those_of_the_formula(distance: float, probability: float) -> None:
    assert collision_probability(distance) == pytest.approx(probability, abs=1e-4)


def test_collisions_become_rarer_with_distance() -> None:
    found = [collision_probability(distance) for distance in np.linspace(0, 10, 50)]
    assert found[0] == 1.0
    assert all(late < early for early, late in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("hashes", "tables"),
    [(4, 6), (6, 10), (8, 17), (10, 27), (12, 42), (14, 66), (16, 104), (18, 163), (20, 255)],
)
def test_number_of_tables(hashes: int, tables: int) -> None:
    assert tables_for(hashes) == tables


@pytest.mark.parametrize("hashes", [4, 8, 12])
def test_points_at_the_radius_are_found_as_often_as_promised(hashes: int) -> None:
    rng = np.random.default_rng(hashes)
    found = 0
    for seed in range(400):
        index = HashedIndex(HashFamily(4, 0.4, hashes=hashes, seed=seed))
        line = rng.normal(size=4)
        centre = rng.random(4)
        for name in range(5):
            index.add(name, centre + 0.4 * (1 - 1e-9) * line / np.linalg.norm(line) * (-1) ** name)
        found += len(index.query(centre))
    assert found / (5 * 400) >= 0.93


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_reported_points_are_near_sorted_and_reported_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.random((60, 3))
    index = HashedIndex(HashFamily(3, 0.3, seed=seed))
    for name, point in enumerate(points):
        index.add(name, point)
    query = rng.random(3)
    found = index.query(query)
    names = [name for name, _ in found]
    assert len(set(names)) == len(names)
    assert [apart for _, apart in found] == sorted(apart for _, apart in found)
    for name, apart in found:
        assert apart == pytest.approx(float(np.linalg.norm(points[name] - query)))
        assert apart <= 0.3


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60), st.integers(0, 99))
def test_points_that_come_and_go_leave_an_index_as_if_built_anew(
    steps: list[tuple[bool, int]], seed: int
) -> None:
    points = np.random.default_rng(seed).random((10, 2))
    index, there = HashedIndex(HashFamily(2, 0.5, seed=seed)), set()
    for add, name in steps:
        if add:
            index.add(name, points[name])
            there.add(name)
        else:
            index.remove(name)
            there.discard(name)
    fresh = HashedIndex(HashFamily(2, 0.5, seed=seed))
    for name in sorted(there):
        fresh.add(name, points[name])
    assert len(index) == len(there)
    for query in points:
        assert index.query(query) == fresh.query(query)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"dimensions": 0}, "dimensions"),
        ({"radius": 0.0}, "radius"),
        ({"radius": float("nan")}, "radius"),
        ({"failure": 1.0}, "failure"),
        ({"hashes": 0}, "hashes"),
        ({"hashes": 21}, "hashes"),
    ],
)
def test_settings_out_of_range_are_refused(settings_: dict[str, float], words: str) -> None:
    whole = {"dimensions": 2, "radius": 0.4, **settings_}
    with pytest.raises(InputError, match=words):
        HashFamily(**whole)  # type: ignore[arg-type]


@pytest.mark.parametrize("point", [[0.1], [0.1, float("nan")], [0.1, float("inf")]])
def test_points_of_another_form_are_refused(point: list[float]) -> None:
    index = HashedIndex(HashFamily(2, 0.4))
    with pytest.raises(InputError):
        index.add(0, np.array(point))
    with pytest.raises(InputError):
        index.query(np.array(point))
    assert len(index) == 0

"""Error intervals: fragile sources are measured first, and a stage off the tail asks for fewer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kwiken.allocator.contention.error_intervals import allowed_slowdown, error_intervals, sources_to_measure
from kwiken.base.errors import InputError

SOURCES = ("a", "b", "c", "d", "e", "f")
SLOW = 1 / 0.95


def history(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tolerated and caused scores: `b` and `e` are sensitive and varied, the others are hardly touched."""
    rng = np.random.default_rng(seed)
    tolerated = rng.uniform(0.9, 1.0, (20, len(SOURCES)))
    tolerated[:, [1, 4]] = rng.uniform(0.05, 0.9, (20, 2))
    caused = rng.uniform(0.0, 0.2, (20, len(SOURCES)))
    caused[:, [1, 4]] = rng.uniform(0.0, 0.9, (20, 2))
    return tolerated, caused


def test_the_planted_fragile_sources_are_measured_first() -> None:
    found = sources_to_measure(*history(), SLOW, SOURCES)
    assert set(found.sources[:2]) == {"b", "e"}
    assert {each.source for each in found.intervals[:2]} == {"b", "e"}
    assert {each.source for each in found.intervals if each.measured} == set(found.sources)


def test_a_source_that_nobody_presses_on_has_no_end_of_its_interval() -> None:
    tolerated, caused = history()
    caused[:, 0] = 0.0
    (first, *_) = error_intervals(tolerated, caused, SLOW, SOURCES)
    assert (first.under, first.over) == (0.5, 0.5)
    assert first.missed == 0.0


def test_a_stage_that_may_be_slow_asks_for_fewer_sources() -> None:
    rng = np.random.default_rng(3)
    tolerated, caused = rng.uniform(0.1, 0.9, (20, 6)), rng.uniform(0.1, 0.9, (20, 6))
    on_the_tail = sources_to_measure(tolerated, caused, SLOW, SOURCES)
    off_the_tail = sources_to_measure(tolerated, caused, 8.0, SOURCES)
    assert len(off_the_tail.sources) == 2
    assert len(on_the_tail.sources) > len(off_the_tail.sources)


def test_intervals_widen_with_what_the_service_bears() -> None:
    tolerated, caused = history(5)
    widths = [
        sum(each.over for each in error_intervals(tolerated, caused, slowdown, SOURCES))
        for slowdown in (1.06, 1.3, 4.0)
    ]
    assert widths == sorted(widths)


@pytest.mark.parametrize(
    ("p99_ms", "target_ms", "expected"),
    [
        (lambda factor: 10 * factor, 20.0, 2.0),
        (lambda _: 10.0, 20.0, 8.0),  # the tail does not pass through
        (lambda factor: 10 * factor, 9.0, 1.0),
    ],
)
def test_the_allowed_slowdown_is_where_the_target_is_reached(
    p99_ms: Callable[[float], float], target_ms: float, expected: float
) -> None:
    assert allowed_slowdown(p99_ms, target_ms) == pytest.approx(expected, rel=0.01)


def test_scores_of_another_form_are_refused() -> None:
    tolerated, caused = history()
    for first, second, slowdown in (
        (tolerated[:, :3], caused, SLOW),
        (tolerated[:2], caused, SLOW),
        (tolerated, caused[:0], SLOW),
        (tolerated, caused, 0.9),
        (tolerated, caused, float("nan")),
    ):
        with pytest.raises(InputError):
            sources_to_measure(first, second, slowdown, SOURCES)

"""Phase changes: slow ones are found before the target is missed, and none is found where nothing changes."""

from __future__ import annotations

import numpy as np

from papers.quasar.phases import MINUTES, NEVER, phase, phases


def test_a_change_over_ten_minutes_is_found_in_time() -> None:
    found = [phase(10, np.random.default_rng(seed)) for seed in range(10)]
    assert all(one.revised for one in found)
    assert sum(one.in_time for one in found) >= 8


def test_what_does_not_change_is_left_alone() -> None:
    assert not any(phase(NEVER, np.random.default_rng(seed)).revised for seed in range(5))


def test_rows_stand_beside_the_source() -> None:
    (part,) = phases(3)
    rows = part.conclude([(90.0, 10.0), (80.0, 12.0), (70.0, 14.0)] * len(MINUTES) + [(3.0, 0.0)] * 3).rows
    assert len(rows) == 2 * len(MINUTES) + 1
    assert rows[0].metric == "change at once: found before the target is missed, %"
    assert (rows[0].ours, rows[0].low, rows[0].high, rows[0].source) == (80.0, 70.0, 90.0, "78")
    assert rows[1].ours == 12.0
    assert (rows[-1].metric, rows[-1].ours) == ("false alarms in half an hour, % of workloads", 3.0)

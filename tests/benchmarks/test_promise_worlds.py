"""Worlds in which promises are judged: what copies truly cut there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.outside.promise_worlds import KINDS, Kind, world
from kwiken.otel.fit.fit import fit_profile

OTHER = 90  # number of a sibling that the benchmark does not draw


@pytest.mark.parametrize("kind", KINDS)
def test_traces_of_a_world_have_its_requests_and_backends(kind: Kind, tmp_path: Path) -> None:
    case = replace(world(kind, OTHER), count=200)
    profile = fit_profile([case.recorded(tmp_path)])
    assert profile.requests == case.count
    assert {stage.match.service for stage in profile.stages} >= {
        f"back{number}" for number in range(len(case.backends))
    }


def test_copies_cut_nothing_where_all_replicas_stop_and_much_where_calls_stall() -> None:
    stopped, stalled = world("together", OTHER), world("independent", OTHER)
    assert stopped.mode == stalled.mode == 0
    assert stopped.cut({}) == 0.0
    assert stopped.best_cut() < 0.05
    backend = stalled.backends[stalled.faulty]
    late_ms = backend.work_ms * float(np.exp(3 * backend.spread))
    assert stalled.cut({stalled.faulty: (late_ms, 1.0)}) > 0.2
    assert stalled.cut({stalled.faulty: (late_ms, 1.0)}, budget=1e-9) <= stalled.cut(
        {stalled.faulty: (late_ms, 1.0)}, budget=0.05
    )

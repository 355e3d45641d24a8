"""Stressors of a recorded history: counters are found and read, calls are counted, and nothing runs between calls."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.placement.record_history import Recording, document, row_of
from benchmarks.placement.stress.stressor import StressError, Stressor, rising_words
from kwiken.allocator.contention.measured_stage import MeasuredRun, StageProbe
from kwiken.allocator.contention.ramp import Scores
from kwiken.allocator.contention.stage_plan import ProbeSetting
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.profile import Size
from kwiken.runtime.base.process_id import family
from tests.support.runtime.waiting import until

needs_stress_ng = pytest.mark.skipif(
    shutil.which("stress-ng") is None or not Path("/proc/self/maps").exists(),
    reason="stress-ng and Linux are needed",
)
BASE = ProbeSetting(Size(0.5, 1.0), 1, "speed-1", 1.0)
OTHERS = (
    ProbeSetting(Size(1.0, 1.0), 1, "speed-1", 1.0),
    ProbeSetting(Size(0.5, 1.0), 2, "speed-1", 1.0),
    ProbeSetting(Size(0.5, 1.0), 1, "speed-0.5", 0.5),
)


@pytest.fixture
def stressor() -> Iterator[Stressor]:
    found = Stressor("vecmath", (), 5)
    yield found
    found.close()


def states(stressor: Stressor) -> set[str]:
    """States of the stressor's processes, as the system tells them."""
    return {
        Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        for process in family(stressor.process.pid)
    }


@needs_stress_ng
def test_calls_wait_for_their_operations_and_the_stressor_rests_between(stressor: Stressor) -> None:
    async def calls_then_rest() -> None:
        before = stressor.count
        assert await asyncio.gather(*(stressor.call() for _ in range(4))) == [5] * 4
        assert stressor.count - before >= 4 * 5
        await until(lambda: states(stressor) == {"T"})  # stopped
        resting = stressor.count
        await asyncio.sleep(0.05)
        assert stressor.count == resting

    for _ in range(2):
        asyncio.run(calls_then_rest())


@needs_stress_ng
def test_a_stressor_that_ended_is_an_error(stressor: Stressor) -> None:
    stressor.close()
    with pytest.raises(StressError, match="stress-ng --vecmath ended with exit code"):
        stressor.count  # noqa: B018 - the property raises


@needs_stress_ng
def test_an_unknown_stressor_is_an_error() -> None:
    with pytest.raises(StressError, match=r"stress-ng --no-such: no single counter was found"):
        Stressor("no-such", (), 1)


def test_a_counter_is_a_word_that_rises_from_look_to_look() -> None:
    looks = np.array([[1, 5, 7, 3], [1, 6, 9, 2], [1, 8, 8, 9]], dtype=np.uint64)
    assert rising_words(*looks) == [1]


def probe(scale: float) -> StageProbe:
    runs = [MeasuredRun(BASE, 10.0 * scale, 0.0)]
    runs += [MeasuredRun(other, each * scale, 0.025) for other, each in zip(OTHERS, (20, 19, 5), strict=True)]
    scores = {"l2": Scores(0.8, 0.25, 0.04, 0.05), "disk": Scores(1.0, 0.0, 0.0, 0.01)}
    return StageProbe(tuple(runs), scores)


def test_a_recorded_history_is_read_with_its_deviations(tmp_path: Path) -> None:
    rows = {name: row_of(probe(scale)) for name, scale in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
    known = measurements_from_text(document(rows, ["one line", "and another"]), where="h", min_workloads=0)
    assert known.up.labels == (Size(0.5, 1.0), Size(1.0, 1.0))
    assert known.out.labels == (1, 2)
    assert known.het.labels == ("speed-1", "speed-0.5")
    assert np.exp(known.up.rows).tolist() == pytest.approx(np.array([[10, 20], [20, 40], [30, 60]]))
    assert known.het.deviations is not None
    assert known.het.deviations.tolist() == [[0.0, 0.025]] * 3
    assert known.caused.rows.tolist() == [[0.25, 0.0]] * 3
    assert known.tolerated.deviations is not None
    assert known.tolerated.deviations.tolist() == [[0.04, 0.0]] * 3


def test_a_recording_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "history.toml"
    first = Recording(out)
    first.head = ["where"]
    first.keep()
    assert not out.exists()  # there are no rows yet
    first.rows["a"] = row_of(probe(1.0))
    first.keep()
    again = Recording(out)
    assert again.head == ["where"]
    assert tuple(again.rows["a"]["up"]["1"]) == (20.0, 0.025)
    assert out.read_text() == document(again.rows, again.head)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.json", "history.toml"]


def test_rows_of_another_recorder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(json.dumps({"search/parse": {"up": {"1": 3.0}}}))
    with pytest.raises(SystemExit, match=r"history\.json: is of another recorder; remove the file"):
        Recording(tmp_path / "history.toml")

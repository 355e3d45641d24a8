"""Which measurements of a stage are planned, and the entry that is written of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwiken.allocator.contention.measured_stage import (
    MeasuredRun,
    StageProbe,
    appended,
    without_workloads,
    workload_entry,
)
from kwiken.allocator.contention.ramp import Scores
from kwiken.allocator.contention.stage_plan import ProbeSetting, class_speeds, plan_stage, whole_plan
from kwiken.allocator.workloads.classification import Classifier
from kwiken.allocator.workloads.measurements import Measurements, measurements_from_text
from kwiken.allocator.workloads.profile import Size
from kwiken.base.errors import InputError

EXAMPLE = (Path(__file__).resolve().parents[3] / "examples" / "allocator" / "measurements.toml").read_text()
HEAD = without_workloads(EXAMPLE)
SPEEDS = {"large": 1.0, "small": 0.4}


def known() -> Measurements:
    return measurements_from_text(HEAD, where="h.toml", min_workloads=0)


def test_four_settings_and_two_sources_are_planned() -> None:
    plan = plan_stage(known(), processors=4, speeds=SPEEDS, where="h.toml")
    size, count, slower = plan.others
    assert plan.reference == ProbeSetting(Size(2, 8), 1, "large", 1.0)
    assert size.size != plan.reference.size
    assert size.size.cores <= 4
    assert (size.replicas, size.node_class) == (1, "large")
    assert count == ProbeSetting(Size(2, 8), 2, "large", 1.0)
    assert slower == ProbeSetting(Size(2, 8), 1, "small", 0.4)
    assert len(set(plan.sources)) == 2


def test_named_sources_are_ramped_as_named() -> None:
    plan = plan_stage(
        known(), processors=4, speeds=SPEEDS, sources=["network", "disk", "network"], where="h.toml"
    )
    assert plan.sources == ("network", "disk")


def test_what_does_not_fit_the_machine_is_not_planned() -> None:
    with pytest.raises(InputError, match=r"h.toml: the reference has 2 cores, and this machine has 1"):
        plan_stage(known(), processors=1, speeds=SPEEDS, where="h.toml")
    with pytest.raises(InputError, match="no other number of replicas in the history can be emulated here"):
        plan_stage(known(), processors=2, speeds=SPEEDS, where="h.toml")
    with pytest.raises(InputError, match="no other class of known speed in the history"):
        plan_stage(known(), processors=4, speeds={"large": 1.0}, where="h.toml")


def test_a_whole_plan_has_every_column_that_fits() -> None:
    plan = whole_plan(known(), processors=4, speeds=SPEEDS)
    assert {each.size.cores for each in plan.others} == {1, 2, 4}
    assert {each.replicas for each in plan.others} == {1, 2}
    assert len(plan.others) == 5 + 1 + 1
    assert len(plan.sources) == 5


def test_speeds_come_from_names_and_from_the_user() -> None:
    renamed = HEAD.replace('"large"', '"speed-1"').replace('"old"', '"speed-0.25"')
    measurements = measurements_from_text(renamed, where="h.toml", min_workloads=0)
    assert class_speeds(measurements, {"medium": 0.7}, where="h") == {
        "speed-1": 1.0,
        "speed-0.25": 0.25,
        "medium": 0.7,
    }
    with pytest.raises(InputError, match=r"how fast is class 'large'. give --class large=SPEED"):
        class_speeds(known(), {"small": 0.5}, where="h.toml")
    with pytest.raises(InputError, match="no class 'tiny' in the history; it has large, medium"):
        class_speeds(known(), {"tiny": 0.5}, where="h.toml")


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(InputError, match=r"--source: no workload of h.toml was measured at 'l2'; there are"):
        plan_stage(known(), processors=4, speeds=SPEEDS, sources=["l2"], where="h.toml")


@pytest.mark.parametrize("name", ["search/lookup", 'quo"ted \\ name', "naïve\tname"])
def test_an_entry_is_read_and_classified(name: str) -> None:
    plan = plan_stage(known(), processors=4, speeds=SPEEDS, where="h.toml")
    runs = tuple(
        MeasuredRun(setting, performance, 0.01)
        for setting, performance in zip(
            (plan.reference, *plan.others), (100.0, 170.0, 190.0, 45.5), strict=True
        )
    )
    scores = {source: Scores(0.4, 0.3, 0.05, 0.05) for source in plan.sources}
    text = appended(HEAD, [workload_entry(name, StageProbe(runs, scores))])
    (read,) = (measurements := measurements_from_text(text, where="m.toml")).workloads
    assert read.name == name
    assert [run.performance for run in read.runs] == [100.0, 170.0, 190.0, 45.5]
    assert [run.place.replicas for run in read.runs] == [1, 1, 2, 1]
    assert read.tolerated == dict.fromkeys(plan.sources, 0.4)
    assert read.caused == dict.fromkeys(plan.sources, 0.3)
    profile = Classifier(measurements).classify(read).profile()
    assert profile.base == pytest.approx(100.0, rel=0.05)


def test_the_head_of_a_document_ends_before_its_workloads() -> None:
    assert "[[workloads]]" in EXAMPLE
    assert "[[workloads]]" not in HEAD
    assert without_workloads(HEAD) == HEAD

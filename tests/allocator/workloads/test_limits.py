"""Limits of documents: each number is read at its limit and refused beyond it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.profile import Size, profiles_from_json, profiles_to_json
from kwiken.allocator.workloads.workload import Measure, Spread, Target, Workload, workloads_from_toml
from kwiken.base.errors import InputError
from tests.allocator.workloads.test_documents import change, document, drawn_profile, known_profile
from tests.support.allocation.stated_length import StatedLength


@pytest.mark.parametrize(
    ("field", "at", "beyond"),
    [
        ("name", "n" * 200, "n" * 201),
        ("memory_gb", 1e6, 1.01e6),
        ("memory_gb", 1e-3, 0.0),
        ("max_replicas", 10_000, 10_001),
        ("max_replicas", 1, 0),
        ("priority", 1000, 1001),
        ("priority", -1000, -1001),
        ("min_nodes", 100, 101),
        ("min_nodes", 1, 0),
        ("shard", 0, -1),
    ],
)
def test_a_workload_within_its_limits(field: str, at: Any, beyond: Any) -> None:
    fields: dict[str, Any] = {
        "name": "w",
        "memory_gb": 1.0,
        "target": Target(ips=1.0),
        "spread": Spread.NODE,
        "service": "s",
        "stage": "t",
    }
    assert getattr(Workload(**{**fields, field: at}), field) == at
    with pytest.raises(ValueError, match=field):
        Workload(**{**fields, field: beyond})


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_sizes_and_targets_are_finite_numbers_above_0(wrong: float) -> None:
    for name in ("cores", "memory_gb"):
        with pytest.raises(ValueError, match=f"{name} must be a finite number above 0, not {wrong}"):
            Size(**{"cores": 1.0, "memory_gb": 1.0, name: wrong})
    for whole in ({"p99_ms": 1.0, "rate_per_s": 1.0}, {"completion_s": 1.0}, {"ips": 1.0}):
        for name in whole:
            with pytest.raises(ValueError, match=f"{name} must be a finite number above 0, not {wrong}"):
                Target(**{**whole, name: wrong})


@pytest.mark.parametrize(
    ("read", "mebibytes"),
    [(workloads_from_toml, 16), (profiles_from_json, 64), (measurements_from_text, 64)],
)
def test_a_document_of_more_bytes_than_its_kind_may_have_is_refused(
    read: Callable[..., object], mebibytes: int
) -> None:
    with pytest.raises(InputError, match="broken"):
        read(StatedLength(b"=", mebibytes << 20), where="d")
    with pytest.raises(InputError, match=f"is larger than {mebibytes << 20} bytes"):
        read(StatedLength(b"=", (mebibytes << 20) + 1), where="d")


def test_what_a_workload_leaves_out_has_its_usual_value() -> None:
    plain = Workload(name="w", memory_gb=1.0, target=Target(ips=1.0))
    assert (plain.best_effort, plain.stateful, plain.priority, plain.max_replicas) == (False, False, 0, 100)
    assert (plain.spread, plain.min_nodes, plain.shard, plain.command) == (Spread.NONE, 1, None, ())
    with pytest.raises(ValueError, match="command is for best-effort work alone"):
        Workload(name="w", memory_gb=1.0, target=Target(ips=1.0), command=("a",))
    assert Workload(name="w", memory_gb=1.0, best_effort=True, command=("a",)).command == ("a",)
    for fields in ({"shard": 1}, {"shard": 1, "service": "s"}):
        with pytest.raises(ValueError, match="shard counts from 0"):
            Workload(name="w", memory_gb=1.0, target=Target(ips=1.0), **fields)
    with pytest.raises(ValueError, match="min_nodes above 1"):
        Workload(name="w", memory_gb=1.0, best_effort=True, spread=Spread.NODE, min_nodes=2)


def test_performance_in_a_measure_tells_of_targets_in_it() -> None:
    targets = {
        Measure.RATE: Target(p99_ms=1.0, rate_per_s=2.0),
        Measure.COMPLETIONS: Target(completion_s=4.0),
        Measure.IPS: Target(ips=3.0),
    }
    for measure, target in targets.items():
        assert target.measure is measure
        told = {one for one in Measure if target.judged_by(one)}
        assert told == ({Measure.RATE, Measure.CAPACITY} if measure is Measure.RATE else {measure})
    assert [target.required for target in targets.values()] == [2.0, 0.25, 3.0]


def test_as_many_workloads_as_are_allowed() -> None:
    one = '[[workloads]]\nname = "{}"\nmemory_gb = 1\nbest_effort = true\n'
    text = "".join(one.format(number) for number in range(10_000))
    assert len(workloads_from_toml(text, where="w")) == 10_000
    with pytest.raises(InputError, match="needs 1 to 10000 workloads, not 10001"):
        workloads_from_toml(text + one.format("more"), where="w")


@pytest.mark.parametrize(
    ("path", "at", "beyond"),
    [
        ("base", 1e-12, 0.99e-12),
        ("base", 1e18, 1.01e18),
        ("base_deviation", 50.0, 50.1),
        ("base_deviation", 0.0, -0.1),
        ("up.0.mean", 50.0, 50.1),
        ("up.0.mean", -50.0, -50.1),
        ("out.1.deviation", 50.0, 50.1),
        ("het.0.deviation", 0.0, -0.1),
        ("tolerated.0.mean", 1.0, 1.01),
        ("caused.0.mean", 0.0, -0.01),
        ("caused.0.deviation", 50.0, 50.1),
        ("out.1.replicas", 2, 1),
        ("work_variation", 100.0, 100.1),
        ("work_variation", 0.0, -0.1),
        ("tails", {"up": 1.0}, {"up": 0.9}),
        ("tails", {"het": 1e6}, {"het": 1.1e6}),
    ],
)
def test_a_profile_within_its_limits(path: str, at: Any, beyond: Any) -> None:
    for value, read in ((at, True), (beyond, False)):
        profile = known_profile()
        change(path, value)(profile)
        text = json.dumps({"version": 1, "profiles": [profile]})
        if read:
            assert len(profiles_from_json(text, where="p")) == 1
        else:
            with pytest.raises(InputError, match=r"^p: profiles\[0\]"):
                profiles_from_json(text, where="p")


@pytest.mark.parametrize(("part", "key"), [("up", "cores"), ("out", "replicas"), ("het", "class")])
def test_a_profile_has_at_most_a_thousand_columns(part: str, key: str) -> None:
    for count in (1000, 1001):
        profile = known_profile()
        names = [f"c{n}" for n in range(count)] if key == "class" else [n + 1 for n in range(count)]
        profile[part] = [{**profile[part][0], key: name} for name in names]
        text = json.dumps({"version": 1, "profiles": [profile]})
        if count == 1000:
            assert len(profiles_from_json(text, where="p")) == 1
        else:
            with pytest.raises(
                InputError, match=rf"profiles\[0\]\.{part}: Expected `array` of length <= 1000"
            ):
                profiles_from_json(text, where="p")


def test_a_correction_within_its_limits() -> None:
    profile = drawn_profile(3, "w", "")
    raw = json.loads(profiles_to_json((profile,)))
    for mean, read in ((50.0, True), (-50.0, True), (50.1, False), (-50.1, False)):
        raw["profiles"][0]["corrections"][0]["mean"] = mean
        if read:
            assert profiles_from_json(json.dumps(raw), where="p")[0].corrections[0].mean == mean
        else:
            with pytest.raises(InputError, match="corrections"):
                profiles_from_json(json.dumps(raw), where="p")


@pytest.mark.parametrize(
    ("path", "at", "beyond", "told"),
    [
        ("workloads.0.identity", "x" * 200, "x" * 201, "at most 200 characters"),
        ("workloads.0.name", "x" * 200, "x" * 201, "1 to 200 characters"),
        ("workloads.0.name", "x", "", "1 to 200 characters"),
        ("workloads.0.runs.0.performance", 1e18, 1.01e18, "from 1e-12 to 1e"),
        ("workloads.0.runs.0.performance", 1e-12, 0.99e-12, "from 1e-12 to 1e"),
        ("workloads.0.runs.0.deviation", 1.0, 1.01, "deviation: must be from 0 to 1"),
        ("workloads.0.runs.0.deviation", 0.0, -0.01, "deviation: must be from 0 to 1"),
        ("workloads.0.work_variation", 100.0, 100.1, "work_variation"),
        ("workloads.0.tolerated.disk", 1.0, 1.01, r"workloads\[0\].tolerated.disk: must be from 0 to 1"),
        ("workloads.0.caused.disk", 0.0, -0.01, r"workloads\[0\].caused.disk: must be from 0 to 1"),
        ("history.tolerated.rows.sort.0", 1.0, 1.01, "scores must be from 0 to 1"),
        ("history.caused.rows.sort.0", 0.0, -0.01, "scores must be from 0 to 1"),
    ],
)
def test_measurements_within_their_limits(path: str, at: Any, beyond: Any, told: str) -> None:
    raw = document()
    change(path, at)(raw)
    measurements_from_text(json.dumps(raw), where="m")
    change(path, beyond)(raw)
    with pytest.raises(InputError, match=told):
        measurements_from_text(json.dumps(raw), where="m")


def test_a_workload_has_at_most_ten_thousand_runs() -> None:
    raw = document()
    run = raw["workloads"][0]["runs"][0]
    for count in (10_000, 10_001):
        raw["workloads"][0]["runs"] = [run] * count
        if count == 10_000:
            found = measurements_from_text(json.dumps(raw), where="m")
            assert len(found.workloads[0].runs) == count
        else:
            with pytest.raises(InputError, match="runs: at most 10000 are read, not 10001"):
                measurements_from_text(json.dumps(raw), where="m")


def test_three_rows_and_three_groups_are_enough() -> None:
    for part in ("up", "out", "het", "tolerated", "caused"):
        for count in (3, 2):
            raw = document()
            rows = raw["history"][part]["rows"]
            raw["history"][part]["rows"] = {name: rows[name] for name in [*rows][:count]}
            if count == 3:
                measurements_from_text(json.dumps(raw), where="m")
            else:
                with pytest.raises(InputError, match=f"history.{part}.rows: 3 or more"):
                    measurements_from_text(json.dumps(raw), where="m")
    names = [*document()["history"]["het"]["rows"]]
    for groups, read in ((3, True), (2, False)):
        raw = document()
        raw["history"]["groups"] = {name: str(place % groups) for place, name in enumerate(names)}
        if read:
            measurements_from_text(json.dumps(raw), where="m")
        else:
            with pytest.raises(InputError, match="3 or more groups are needed"):
                measurements_from_text(json.dumps(raw), where="m")


def test_deviations_of_a_history_belong_to_its_rows() -> None:
    raw = document()
    size = len(raw["history"]["het"]["classes"])
    raw["history"]["het"]["deviations"] = {"sort": [0.1] * size}
    found = measurements_from_text(json.dumps(raw), where="m").het
    assert found.deviations is not None
    assert found.deviations[found.names.index("sort")].tolist() == [0.1] * size
    assert found.deviations.sum() == pytest.approx(0.1 * size)
    for told, problem in (
        ({"nobody": [0.1] * size}, "history.het.deviations.nobody: no row of that name"),
        ({"sort": [0.1]}, "history.het.deviations.sort: has 1 values for"),
        ({"sort": [1.01] * size}, "history.het.deviations.sort: must be from 0 to 1"),
    ):
        raw["history"]["het"]["deviations"] = told
        with pytest.raises(InputError, match=problem):
            measurements_from_text(json.dumps(raw), where="m")


def test_a_history_alone_is_read_where_no_workload_is_needed() -> None:
    raw = document()
    raw["workloads"] = []
    assert measurements_from_text(json.dumps(raw), where="m", min_workloads=0).workloads == ()
    with pytest.raises(InputError, match="workloads: 1 to 10000 are needed, not 0"):
        measurements_from_text(json.dumps(raw), where="m")


def test_what_a_run_leaves_out_is_that_of_the_reference() -> None:
    raw = document()
    raw["workloads"][0]["runs"] = [{"performance": 5.0}, {"performance": 6.0, "replicas": 4}]
    found = measurements_from_text(json.dumps(raw), where="m")
    first, second = found.workloads[0].runs
    assert first.place == found.reference
    assert (second.place.replicas, second.place.size) == (4, found.reference.size)
    assert first.deviation is None


def test_scores_and_their_deviations_are_of_the_same_sources() -> None:
    raw = document()
    source = next(iter(raw["history"]["tolerated"]["sources"]))
    raw["workloads"][0]["tolerated"] = {source: 1.0}
    raw["workloads"][0]["tolerated_deviation"] = {source: 1.0}
    found = measurements_from_text(json.dumps(raw), where="m").workloads[0]
    assert found.tolerated_deviation == {source: 1.0}
    raw["workloads"][0]["caused"] = {}
    raw["workloads"][0]["caused_deviation"] = {source: 0.1}
    with pytest.raises(InputError, match=r"caused_deviation.*`caused` has no score for this source"):
        measurements_from_text(json.dumps(raw), where="m")


def test_a_document_of_measurements_has_at_most_ten_thousand_workloads() -> None:
    raw = document()
    for count in (10_000, 10_001):
        raw["workloads"] = [{"name": f"w{number}", "measure": "ips"} for number in range(count)]
        if count == 10_000:
            assert len(measurements_from_text(json.dumps(raw), where="m").workloads) == count
        else:
            with pytest.raises(InputError, match="workloads: 1 to 10000 are needed, not 10001"):
                measurements_from_text(json.dumps(raw), where="m")


@pytest.mark.parametrize("count", [1, 1000, 1001])
def test_a_part_of_a_history_has_one_to_a_thousand_columns(count: int) -> None:
    raw = document()
    raw["workloads"] = []
    raw["history"]["out"] = {
        "replicas": [*range(1, count + 1)],
        "rows": {name: [1.0] * count for name in "abc"},
    }
    if count <= 1000:
        found = measurements_from_text(json.dumps(raw), where="m", min_workloads=0).out
        assert (len(found.labels), found.rows.shape) == (count, (3, count))
    else:
        with pytest.raises(InputError, match=r"history\.out\.replicas: 1 to 1000 are needed, not 1001"):
            measurements_from_text(json.dumps(raw), where="m", min_workloads=0)


def test_a_history_of_scores_needs_a_source() -> None:
    raw = document()
    raw["history"]["tolerated"] = {"sources": [], "rows": {name: [] for name in "abc"}}
    with pytest.raises(InputError, match=r"history\.tolerated\.sources: 1 to 1000 are needed, not 0"):
        measurements_from_text(json.dumps(raw), where="m")


def test_of_many_labels_the_first_eight_are_named() -> None:
    raw = document()
    raw["history"]["out"] = {"replicas": [*range(1, 12)], "rows": {name: [1.0] * 11 for name in "abc"}}
    raw["workloads"][0]["runs"] = [{"performance": 5.0, "replicas": 12}]
    with pytest.raises(InputError, match=r"it has 1, 2, 3, 4, 5, 6, 7, 8$"):
        measurements_from_text(json.dumps(raw), where="m")


def test_a_group_may_have_the_name_of_a_row_outside_it() -> None:
    raw = document()
    assert measurements_from_text(json.dumps(raw), where="m").het.groups is None
    raw["history"]["groups"] = {"sort": "merge", "rank": "merge"}
    found = measurements_from_text(json.dumps(raw), where="m").het
    assert found.groups is not None
    groups = dict(zip(found.names, found.groups.tolist(), strict=True))
    assert groups["sort"] == groups["rank"] != groups["merge"]
    assert len(set(groups.values())) == len(groups) - 1

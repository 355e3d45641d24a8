"""Documents of workloads, profiles and measurements: round trips, and one clear line for each wrong input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.workloads.completion.tails import ErrorTails
from kwiken.allocator.workloads.measurements import measurements_from_text
from kwiken.allocator.workloads.profile import (
    MAX_FREEDOM,
    Correction,
    Estimate,
    Size,
    WorkloadProfile,
    profiles_from_json,
    profiles_to_json,
)
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Spread, workloads_from_toml
from kwiken.base.errors import InputError

WORKLOADS = """
[[workloads]]
name = "look-up"
memory_gb = 1.5
target = { p99_ms = 50, rate_per_s = 200 }
service = "search"
stage = "lookup"
shard = 0
spread = "zone"

[[workloads]]
name = "backup"
memory_gb = 4
best_effort = true

[[workloads]]
name = "index"
memory_gb = 8
target = { completion_s = 600 }
"""


def test_workloads_are_read_with_their_targets() -> None:
    lookup, backup, index = workloads_from_toml(WORKLOADS, where="w.toml")
    assert lookup.spread is Spread.ZONE
    assert lookup.target is not None
    assert (lookup.target.measure, lookup.target.required) == (Measure.RATE, 200)
    assert backup.target is None
    assert index.target is not None
    assert (index.target.measure, index.target.required) == (Measure.COMPLETIONS, 1 / 600)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("memory_gb = 1.5", "memory_gb = nan", r"w.toml: workloads\[0\]: memory_gb must be above 0"),
        ("memory_gb = 1.5", "memory_gb = 0", r"workloads\[0\]: memory_gb must be above 0"),
        ("p99_ms = 50, ", "", r"workloads\[0\].target: p99_ms and rate_per_s go together"),
        ("completion_s = 600", "completion_s = -1", "completion_s must be a finite number above 0, not -1"),
        ("completion_s = 600", "completion_s = 600, ips = 1e9", "needs one of: p99_ms with rate_per_s"),
        ("completion_s = 600", "", r"workloads\[2\].target: needs one of"),
        ("best_effort = true", "", r"workloads\[1\]: needs a target, or best_effort = true, and not both"),
        ('name = "index"', 'name = "backup"', r"workloads\[2\].name: 'backup' is given twice"),
        ('name = "index"', 'name = ""', "name must have 1 to 200 characters"),
        ('name = "index"', 'nam = "index"', r"workloads\[2\]: unknown field `nam`"),
        ('service = "search"', "", "a stage needs the service"),
        ('stage = "lookup"', "", "shard counts from 0, and needs the stage"),
        ('spread = "zone"', 'spread = "rack"', r"workloads\[0\].spread: Invalid enum value 'rack'"),
        ('spread = "zone"', "max_replicas = 0", "max_replicas must be from 1 to 10000, not 0"),
        ('spread = "zone"', "priority = 5000", "priority must be from -1000 to 1000, not 5000"),
        ('spread = "zone"', "spread = ", r"w.toml: broken TOML: .*line 9"),
        (WORKLOADS, "workloads = []", "needs 1 to 10000 workloads, not 0"),
        (WORKLOADS, "", "is empty"),
    ],
)
def test_wrong_workloads_are_refused(before: str, after: str, told: str) -> None:
    assert before in WORKLOADS
    with pytest.raises(InputError, match=told):
        workloads_from_toml(WORKLOADS.replace(before, after), where="w.toml")


def drawn_profile(seed: int, name: str, identity: str) -> WorkloadProfile:
    """Profile with random numbers."""
    rng = np.random.default_rng(seed)

    def estimate(count: int) -> Estimate:
        return Estimate(rng.normal(0, 3, count), rng.exponential(1, count))

    def scores() -> Estimate:
        return Estimate(rng.random(len(SOURCES)), rng.exponential(1, len(SOURCES)))

    sizes = tuple(Size(1.0 + cores, 4.0) for cores in sorted(rng.permutation(64)[:3].tolist()))
    counts = np.array([1, *sorted((2 + rng.permutation(90)[: rng.integers(0, 4)]).tolist())])
    return WorkloadProfile(
        name=name,
        measure=list(Measure)[seed % 3],
        base=float(np.exp(rng.normal(0, 9))),
        base_deviation=float(rng.exponential(1)),
        sizes=sizes,
        up=estimate(len(sizes)),
        replicas=counts,
        out=estimate(len(counts)),
        classes=("large", "small"),
        het=estimate(2),
        tolerated=scores(),
        caused=scores(),
        identity=identity,
        corrections=(Correction(size=sizes[0], replicas=1, node_class="small", mean=float(rng.normal())),),
    )


@given(seed=st.integers(0, 2**32), name=st.text(min_size=1, max_size=8), identity=st.text(max_size=4))
def test_profiles_survive_a_round_trip(seed: int, name: str, identity: str) -> None:
    profile = drawn_profile(seed, name, identity)
    text = profiles_to_json((profile,))
    assert text.startswith('{\n "version": 1,\n')  # a line for each field, indented by one space
    (again,) = profiles_from_json(text, where="p.json")
    assert profiles_to_json((again,)) == text
    assert (again.sizes, again.classes, again.corrections) == (
        profile.sizes,
        profile.classes,
        profile.corrections,
    )
    for part in ("up", "out", "het", "tolerated", "caused"):
        assert getattr(again, part).mean.tolist() == getattr(profile, part).mean.tolist()


@pytest.mark.parametrize(("place", "corrections"), [(0, 1), (2, 0)])
def test_a_profile_of_one_size_keeps_what_was_predicted_for_it(place: int, corrections: int) -> None:
    profile = drawn_profile(7, "w", "")
    one = profile.of_size(profile.sizes[place])
    assert one.sizes == (profile.sizes[place],)
    assert (one.up.mean.tolist(), one.up.deviation.tolist()) == (
        [profile.up.mean[place]],
        [profile.up.deviation[place]],
    )
    assert len(one.corrections) == corrections
    assert (one.base, one.het, one.tolerated) == (profile.base, profile.het, profile.tolerated)


def known_profile() -> dict[str, Any]:
    one = {"mean": 0.0, "deviation": 0.1}
    scores = [{"source": name, "mean": 0.5, "deviation": 0.1} for name in SOURCES[1:]]
    return {
        "name": "a",
        "measure": "rate",
        "base": 10.0,
        "base_deviation": 0.1,
        "up": [{"cores": 1, "memory_gb": 2, **one}],
        "out": [{"replicas": 1, **one}, {"replicas": 2, **one}, {"replicas": 4, **one}],
        "het": [{"class": "large", **one}],
        "tolerated": scores,
        "caused": scores,
        "assumed": [SOURCES[0]],
    }


def change(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def changed(profile: dict[str, Any]) -> None:
        *way, last = path.split(".")
        at: Any = profile
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        at[int(last) if isinstance(at, list) else last] = value

    return changed


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("base", 0, r"p.json: profiles\[0\].base: Expected `float` >= 1e-12"),
        ("base", 5e-324, r"p.json: profiles\[0\].base: Expected `float` >= 1e-12"),
        ("base", 1e308, r"p.json: profiles\[0\].base: Expected `float` <= 1e\+18"),
        ("base_deviation", -1, r"profiles\[0\].base_deviation"),
        ("out.1.replicas", 1, r"profiles\[0\].out: replicas must rise from 1"),
        ("out.0.replicas", 2, r"profiles\[0\].out: replicas must rise from 1"),
        ("out.2.replicas", 2, r"profiles\[0\].out: replicas must rise from 1"),
        ("out.0.replicas", 0, "Expected `int` >= 1"),
        ("up", 2 * [{"cores": 1, "memory_gb": 2, "mean": 0, "deviation": 0}], "up: a size is given twice"),
        ("het", 2 * [{"class": "large", "mean": 0, "deviation": 0}], "het: a class is given twice"),
        ("up.0.cores", -1, r"profiles\[0\].cores must be a finite number above 0"),
        ("tolerated.0.source", "gpu", r"profiles\[0\].tolerated: no source 'gpu'"),
        ("tolerated.0.mean", 1.5, "Expected `float` <= 1.0"),
        ("assumed", [], "tolerated: needs each source once, here or in `assumed`"),
        ("het.0.speed", 2, "unknown field `speed`"),
        (
            "corrections",
            [{"size": {"cores": 9, "memory_gb": 2}, "replicas": 1, "class": "large", "mean": 0}],
            "corrections: the size, replicas and class must be among those of the profile",
        ),
    ],
)
def test_wrong_profiles_are_refused(path: str, value: object, told: str) -> None:
    profile = known_profile()
    profiles_from_json(json.dumps({"version": 1, "profiles": [profile]}), where="p.json")
    change(path, value)(profile)
    with pytest.raises(InputError, match=told):
        profiles_from_json(json.dumps({"version": 1, "profiles": [profile]}), where="p.json")


def test_profiles_of_another_version_or_given_twice_are_refused() -> None:
    with pytest.raises(InputError, match="version must be 1, not 7"):
        profiles_from_json('{"version": 7}', where="p.json")
    twice = {"version": 1, "profiles": [known_profile(), known_profile()]}
    with pytest.raises(InputError, match=r"profiles\[1\].name: 'a' is given twice"):
        profiles_from_json(json.dumps(twice), where="p.json")


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "allocator" / "measurements.toml"


def document() -> dict[str, Any]:
    """The example as plain values."""
    import tomllib

    return tomllib.loads(EXAMPLE.read_text())


def test_the_example_is_the_same_in_toml_and_json() -> None:
    toml = measurements_from_text(EXAMPLE.read_text(), where="m.toml")
    plain = measurements_from_text(json.dumps(document()), where="m.json")
    assert plain.workloads == toml.workloads
    assert plain.het.rows.tolist() == toml.het.rows.tolist()
    assert plain.reference == toml.reference


def remove(path: str) -> Callable[[dict[str, Any]], None]:
    def removed(raw: dict[str, Any]) -> None:
        *way, last = path.split(".")
        at: Any = raw
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        del at[last]

    return removed


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (change("version", 2), "version: 2 is not known"),
        (change("reference.cores", 0), "reference.cores must be a finite number above 0"),
        (change("reference.class", "huge"), r"history.het.classes: the reference is missing \('huge'\)"),
        (change("reference.cores", 3), "history.up.sizes: the reference is missing"),
        (change("history.out.replicas.0", 3), "history.out.replicas: the reference is missing"),
        (change("history.out.replicas.1", 16), "history.out.replicas: 16 is given twice"),
        (change("history.out.replicas.1", 32), "history.out.replicas: must rise from 1"),
        (change("history.out.replicas", [0, 1, 4, 8, 16]), "history.out.replicas: must rise from 1"),
        (
            change("history.het.rows.sort.1", -3),
            "history.het.rows.sort: performance must be finite and above 0",
        ),
        (
            change("history.het.rows.sort.1", 0),
            "history.het.rows.sort: performance must be finite and above 0",
        ),
        (change("history.het.rows.sort", [1, 2]), "history.het.rows.sort: has 2 values for 4 classes"),
        (change("history.het.rows", {}), "history.het.rows: 3 or more workloads that are measured whole"),
        (change("history.caused.rows.sort.0", 1.2), "history.caused.rows.sort: scores must be from 0 to 1"),
        (
            change("history.caused.sources.0", "gpu"),
            "history.caused.sources: no source 'gpu'; known: cpu-int",
        ),
        (remove("history.caused"), "history.caused.sources: must be the sources of history.tolerated"),
        (change("workloads", []), "workloads: 1 to 10000 are needed, not 0"),
        (change("workloads.1.name", "look-up"), r"workloads\[1\].name: 'look-up' is given twice"),
        (change("workloads.0.measure", "qps"), r"workloads\[0\].measure: Invalid enum value 'qps'"),
        (
            change("workloads.0.runs.0.performance", -1),
            r"workloads\[0\].runs\[0\].performance: must be from 1e-12 to 1e\+18, not -1",
        ),
        (
            change("workloads.0.runs.0.class", "tiny"),
            r"runs\[0\]: no class 'tiny' in the history; it has 'large'",
        ),
        (change("workloads.0.runs.0.cores", -1), r"workloads\[0\].runs\[0\].cores must be a finite number"),
        (change("workloads.0.runs.0.cores", 64), r"no size 64 cores with 8 GB in the history"),
        (change("workloads.0.runs.0.replicas", 3), "no number of replicas 3 in the history"),
        (change("workloads.0.runs.0.speed", 3), r"workloads\[0\].runs\[0\]: unknown field `speed`"),
        (change("workloads.0.tolerated", {"gpu": 0.5}), r"workloads\[0\].tolerated: no source 'gpu'"),
        (change("workloads.0.tolerated", {"l2": 0.5}), "no workload of the history was measured at 'l2'"),
        (change("workloads.0.caused", {"disk": -0.1}), r"workloads\[0\].caused.disk: must be from 0 to 1"),
        (change("workloads.0.identity", "x" * 300), "identity: must have at most 200 characters"),
    ],
)
def test_wrong_measurements_are_refused(edit: Callable[[dict[str, Any]], None], told: str) -> None:
    raw = document()
    edit(raw)
    with pytest.raises(InputError, match=told):
        measurements_from_text(json.dumps(raw), where="m.json")


def test_numbers_that_are_none_are_refused_in_toml() -> None:
    text = EXAMPLE.read_text().replace("{ performance = 69.56 }", "{ performance = nan }")
    with pytest.raises(InputError, match=r"m.toml: workloads\[0\].runs\[0\].performance: .* not nan"):
        measurements_from_text(text, where="m.toml")
    with pytest.raises(InputError, match=r"broken TOML: .*line 1"):
        measurements_from_text("version = \n", where="m.toml")


def test_what_a_profile_leaves_out_is_the_usual() -> None:
    text = json.dumps({"version": 1, "profiles": [known_profile()]})
    (found,) = profiles_from_json(text, where="p.json")
    for part in ("up", "out", "het", "tolerated", "caused"):
        assert getattr(found, part).tails == ErrorTails(freedom=math.inf, narrowing=1.0)
    assert (found.identity, found.corrections) == ("", ())
    # At a source that was assumed, everything is borne and nothing is caused.
    assert (found.tolerated.mean[0], found.caused.mean[0]) == (1.0, 0.0)
    assert (found.tolerated.deviation[0], found.caused.deviation[0]) == (0.0, 0.0)


@pytest.mark.parametrize("part", ["up", "out", "het"])
def test_groups_need_no_row_in_a_part_that_the_history_leaves_out(part: str) -> None:
    raw = document()
    del raw["history"][part]
    for workload in raw["workloads"]:
        workload["runs"] = workload["runs"][:1]
    raw["history"]["groups"] = {"sort": "a", "merge": "a"}
    found = measurements_from_text(json.dumps(raw), where="m.json")
    assert found.tolerated.groups is not None
    matrix, reference = getattr(found, part), found.reference
    assert matrix.labels == ({"up": reference.size, "out": 1, "het": reference.node_class}[part],)
    assert matrix.rows.shape == (0, 1)


def test_performance_has_a_level_and_scores_have_none() -> None:
    full, empty = document(), document()
    empty.update(history={}, workloads=[])
    for raw in (full, empty):
        found = measurements_from_text(json.dumps(raw), where="m.json", min_workloads=0)
        assert all(matrix.level for matrix in (found.up, found.out, found.het))
        assert not any(matrix.level for matrix in (found.tolerated, found.caused))
        assert found.reference.replicas == 1


def test_a_document_without_a_history_has_the_reference_alone() -> None:
    raw = document()
    raw.update(history={}, workloads=[])
    found = measurements_from_text(json.dumps(raw), where="m.json", min_workloads=0)
    assert {matrix.rows.shape for matrix in (found.up, found.out, found.het)} == {(0, 1)}
    assert [(matrix.labels, matrix.rows.shape) for matrix in (found.tolerated, found.caused)] == 2 * [
        ((), (0, 0))
    ]


def test_measurements_that_are_nested_too_deep_are_refused() -> None:
    with pytest.raises(InputError, match=r"m.toml: is nested too deep"):
        measurements_from_text("a = " + "[" * 100_000, where="m.toml")


def test_what_a_workload_leaves_out_is_the_usual() -> None:
    least = '[[workloads]]\nname = "w"\nmemory_gb = 1.0\ntarget = { ips = 1e9 }\n'
    whole = """best_effort = false
stateful = false
priority = 0
max_replicas = 100
spread = "none"
min_nodes = 1
service = ""
stage = ""
command = []
"""
    assert workloads_from_toml(least, where="w") == workloads_from_toml(least + whole, where="w")


def test_what_measurements_leave_out_is_the_usual() -> None:
    raw = document()
    for part in ("up", "out", "het"):
        raw["history"][part].pop("one_unit", None)
    raw["workloads"] = raw["workloads"][:1]  # one is enough
    for run in raw["workloads"][0]["runs"]:
        run.pop("replicas", None)
    found = measurements_from_text(json.dumps(raw), where="m.json")
    assert [getattr(found, part).one_unit for part in ("up", "out", "het")] == [False] * 3
    assert {run.place.replicas for run in found.workloads[0].runs} == {1}


@pytest.mark.parametrize(("freedom", "read"), [(3.5, 3.5), (1e9, MAX_FREEDOM), (math.inf, math.inf)])
def test_tails_of_errors_survive_a_round_trip(freedom: float, read: float) -> None:
    profile = drawn_profile(5, "w", "")
    tails = ErrorTails(freedom=freedom, narrowing=0.7)
    parts = {name: replace(getattr(profile, name), tails=tails) for name in ("up", "out", "het", "caused")}
    (again,) = profiles_from_json(profiles_to_json((replace(profile, **parts),)), where="p.json")
    for name in parts:
        assert getattr(again, name).tails == ErrorTails(freedom=read, narrowing=0.7)
    assert again.tolerated.tails == ErrorTails(freedom=math.inf, narrowing=1.0)


def test_one_infinite_performance_of_a_row_is_refused() -> None:
    text = EXAMPLE.read_text()
    assert "sort = [101, 80.8," in text
    with pytest.raises(InputError, match=r"history\.het\.rows\.sort: performance must be finite and above 0"):
        measurements_from_text(text.replace("sort = [101, 80.8,", "sort = [101, inf,"), where="m.toml")

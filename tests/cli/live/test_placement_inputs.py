"""Options of `kwiken up` that place replicas on nodes: what is read of a placement, and what is refused."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kwiken.allocator.workloads.profile import profiles_to_json
from kwiken.base.errors import InputError
from kwiken.cli.placing.options import PlacementOptions, service_targets
from kwiken.cli.placing.placement_inputs import Placed
from kwiken.cli.placing.run_on_nodes import claimed_nodes
from kwiken.cli.shared.options import load_service
from tests.support.runtime.clusters import profile

SERVICE = load_service("services.hello:hello")
NODES = """
classes = [
    { name = "quick", cores = 1, memory_gb = 2, speed = 2.0 },
    { name = "slow", cores = 1, memory_gb = 2, speed = 0.5 },
]
nodes = [{ name = "a", class = "quick" }, { name = "b", class = "slow" }]
"""


def workload(stage: str, *nodes: str, service: str = "hello") -> dict[str, Any]:
    replicas = [{"node": node, "cores": 0.3, "memory_gb": 0.1, "reissue_cores": 0.1} for node in nodes]
    figures = {"required": 1, "expected": 2, "needed": 1, "probability": 1, "cost_per_hour": 1}
    status = {"status": "met" if nodes else "queued", "replicas": replicas}
    return {"name": f"{service}-{stage}", "service": service, "stage": stage, **figures, **status}


def options(folder: Path, *workloads: dict[str, Any], nodes: str | None = NODES) -> PlacementOptions:
    there = [{"name": name, "class": kind, "cores": 1, "memory_gb": 2} for name, kind in
             (("a", "quick"), ("b", "slow"))]  # fmt: skip
    placement = {"version": 1, "scheduler": "thrifty", "confidence": 0.95, "nodes": there}
    file = folder / "placement.json"
    file.write_bytes(msgspec.json.encode(placement | {"workloads": list(workloads)}))
    if nodes is not None:
        (folder / "nodes.toml").write_text(nodes)
    return PlacementOptions(str(file), str(folder / "nodes.toml") if nodes is not None else None)


def test_a_placement_gives_nodes_their_speed_and_replicas_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = options(tmp_path, workload("tidy", "a", "b"), workload("x", "a", service="other")).read([SERVICE])
    assert found is not None
    assert {name: (node.node_class, node.speed) for name, node in found.nodes.items()} == {
        "a": ("quick", 1.0),
        "b": ("slow", 0.25),
    }
    assert [(place.node, place.cores) for place in found.replicas["hello"]["tidy"]] == [
        ("a", 0.4),
        ("b", 0.4),
    ]
    assert "on no node and without limits: greet, join" in capsys.readouterr().err


def test_without_a_document_of_nodes_all_are_as_fast_as_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = options(tmp_path, workload("tidy", "b"), nodes=None).read([SERVICE])
    assert found is not None
    assert found.nodes["b"].speed == 1.0
    assert "without --nodes every node is as fast as this machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("workloads", "nodes", "message"),
    [
        (
            [workload("nope", "a")],
            NODES,
            r"workloads\[0\].stage: 'hello-nope' is for stage 'nope', and 'hello' has tidy, greet, join",
        ),
        ([workload("x", "a", service="other")], NODES, "no workload is a stage of service 'hello'"),
        ([workload("tidy")], NODES, "stage 'tidy' has no replica, since its workload waits"),
        (
            [workload("tidy", "a")],
            NODES.replace('"b"', '"c"'),
            r"nodes\[1\].name: 'b' is not in .*nodes.toml",
        ),
        (
            [workload("tidy", "a")],
            NODES.replace(", speed = 0.5", ""),
            r"nodes.toml: classes\[1\].speed: is missing; give every class one",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, workloads: list[dict[str, Any]], nodes: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        options(tmp_path, *workloads, nodes=nodes).read([SERVICE])


def test_nodes_alone_are_refused() -> None:
    with pytest.raises(InputError, match="--nodes: needs --placement, or --workloads and --profiles"):
        PlacementOptions(None, "nodes.toml").read([SERVICE])


WORKLOADS = """
[[workloads]]
name = "first"
memory_gb = 0.1
service = "hello"
stage = "tidy"
target = { p99_ms = 50, rate_per_s = 80 }

[[workloads]]
name = "elsewhere"
memory_gb = 0.1
service = "other"
stage = "x"
target = { p99_ms = 50, rate_per_s = 80 }

[[workloads]]
name = "filler"
memory_gb = 0.1
best_effort = true
max_replicas = 1
command = ["sleep", "600"]
"""


def keeping(folder: Path, *, workloads: str = WORKLOADS, **change: Any) -> PlacementOptions:
    rates: dict[float, float] = {0.5: 50.0, 1: 100.0}
    classes = {"quick": 1.0, "slow": 0.25}
    profiles = tuple(profile(rates, classes, name=name) for name in ("first", "elsewhere", "filler"))
    files = {"nodes.toml": NODES, "workloads.toml": workloads, "profiles.json": profiles_to_json(profiles)}
    for name, text in files.items():
        (folder / name).write_text(text)
    paths = {name.partition(".")[0]: str(folder / name) for name in files}
    return PlacementOptions(**{"placement": None, **paths, "target_p99": ("80",), **change})


def test_workloads_with_predictions_are_placed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = keeping(tmp_path).read([SERVICE])
    assert found is not None
    assert found.adaptation is not None
    assert found.assignment is not None
    assert [(place.node, place.cores) for place in found.replicas["hello"]["tidy"]] == [("a", 1.0)]
    assert found.assignment.names == {"first-0": "tidy-0"}
    assert {name: len(keys) for name, keys in found.adaptation.keys.items()} == {"first": 1, "filler": 1}
    assert found.assignment.workloads["filler"].command == ("sleep", "600")
    told = "note: of other services, and so neither started nor given room: elsewhere"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": None}, "keeping targets needs --nodes, --workloads and --profiles"),
        ({"profiles": None}, "keeping targets needs --nodes, --workloads and --profiles"),
        (
            {"workloads": WORKLOADS.replace('"tidy"', '"nope"')},
            r"workloads\[0\].stage: 'first' is for stage 'nope', and 'hello' has tidy, greet, join",
        ),
        (
            {"workloads": WORKLOADS.replace('"first"', '"last"')},
            "has no profile of 'last', but first, elsewhere, filler",
        ),
        (
            {"workloads": WORKLOADS.replace("rate_per_s = 80", "rate_per_s = 8000")},
            "workload 'first' has no room; kwiken place says the nearest target that has",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    text = change.pop("workloads", WORKLOADS)
    with pytest.raises(InputError, match=message):
        keeping(tmp_path, workloads=text, **change).read([SERVICE])


def test_services_that_are_started_together_draw_on_one_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = NODES.replace('"b", class = "slow"', '"b", class = "quick"')
    options = keeping(tmp_path, workloads=WORKLOADS.replace('"other"', '"pack"').replace('"x"', '"packing"'))
    (tmp_path / "nodes.toml").write_text(nodes)
    pack = load_service("services.trio:pack")
    alone = [options.read([service]) for service in (SERVICE, pack)]
    assert [placed and node_of(placed) for placed in alone] == [{"first": "a"}, {"elsewhere": "a"}]
    capsys.readouterr()
    two = dataclasses.replace(options, target_p99=("hello=80", "pack=70")).read([SERVICE, pack])
    assert two is not None
    assert node_of(two) == {"first": "a", "elsewhere": "b"}
    assert [place.node for place in two.replicas["pack"]["packing"]] == ["b"]
    assert "of other services" not in capsys.readouterr().err


def node_of(placed: Placed) -> dict[str, str]:
    """Node of the one replica of each workload with a target."""
    assert placed.adaptation is not None
    return {name: keys[0][1] for name, keys in placed.adaptation.keys.items() if name != "filler"}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("pack=50",), "must be SERVICE=TIME with a service of hello, not 'pack=50'"),
        (("50", "hello=60"), "service 'hello' is given twice"),
        (("soon",), "'soon' is not a latency; write 60ms, 0.2s or 60"),
        (("hello=nan",), "'nan' is not a latency; write 60ms, 0.2s or 60"),
        (("0",), "'0' is not a latency; write 60ms, 0.2s or 60"),
    ],
)
def test_targets_of_services_that_make_no_sense_are_refused(
    tmp_path: Path, texts: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=f"--target-p99: {message}"):
        keeping(tmp_path, target_p99=texts).read([SERVICE])


def test_targets_of_services_are_read_by_name() -> None:
    pack = load_service("services.trio:pack")
    assert service_targets([SERVICE], ["80"]) == {"hello": 80.0}
    assert service_targets([SERVICE, pack], ["pack=70ms", "hello=0.5s"]) == {"pack": 70.0, "hello": 500.0}
    assert service_targets([SERVICE, pack], []) == {}


def test_several_services_need_their_names_at_a_target(tmp_path: Path) -> None:
    pack = load_service("services.trio:pack")
    with pytest.raises(InputError, match="must be SERVICE=TIME with a service of hello, pack, not '50'"):
        keeping(tmp_path, target_p99=("50",)).read([SERVICE, pack])


def test_nodes_are_kept_by_one_program_and_followed_by_many(tmp_path: Path) -> None:
    (tmp_path / "nodes.toml").write_text(NODES)
    nodes = str(tmp_path / "nodes.toml")
    refusal = "nodes.toml: another kwiken up has its replicas on these nodes.*give one kwiken up all services"
    with claimed_nodes(nodes, alone=True):
        for alone in (True, False):
            with pytest.raises(InputError, match=refusal), claimed_nodes(nodes, alone=alone):
                pass
    follows = functools.partial(claimed_nodes, nodes, alone=False)
    with follows(), follows(), pytest.raises(InputError, match=refusal), claimed_nodes(nodes, alone=True):
        pass
    with claimed_nodes(nodes, alone=True):  # free again
        pass
    with (
        pytest.raises(InputError, match=r"gone\.toml: cannot be read"),
        claimed_nodes("gone.toml", alone=True),
    ):
        pass

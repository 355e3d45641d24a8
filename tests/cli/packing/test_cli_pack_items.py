"""`kwiken pack` on documents with fields of a wrong kind: an answer or one line, never a failure of ours."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.allocator.packing.documents.kubernetes import cluster_from_kubectl
from kwiken.base.errors import InputError
from tests.support.allocation.packing.clusters import budget_item, listed, node_item, pod_item, usage_rows
from tests.support.project.commands import refused, run

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
WRONG: tuple[Any, ...] = (None, 1, 1.5, True, "x", [], {}, [1], ["a"], [{}], [None], {"a": 1}, 10**400)


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def document() -> dict[str, Any]:
    """Two nodes and two pods with every field that is read."""
    terms = [
        {
            "matchExpressions": [rule("k", "In", "v"), rule("q", "Gt", "1")],
            "matchFields": [rule("metadata.name", "In", "n0")],
        }
    ]
    beside = {"matchLabels": {"app": "a"}, "matchExpressions": [rule("app", "In", "a")]}
    requests = {"requests": {"cpu": "1m"}, "limits": {"cpu": "2"}}
    pod = pod_item(
        "a-abc-x",
        "n0",
        owner="a",
        nodeSelector={"k": "v"},
        affinity={
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}},
            "podAntiAffinity": {REQUIRED: [{"labelSelector": beside, "topologyKey": HOST}]},
        },
        tolerations=[{"key": "t", "operator": "Equal", "value": "1", "effect": "NoSchedule"}],
        priority=5,
        overhead={"cpu": "10m"},
        volumes=[{"emptyDir": {"medium": "Memory"}}, {"persistentVolumeClaim": {"claimName": "x"}}],
        topologySpreadConstraints=[{"topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}],
        initContainers=[{"name": "i", "restartPolicy": "Always", "resources": requests}],
    )
    pod["spec"]["containers"][0]["ports"] = [{"hostPort": 0}]
    pod["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    nodes = [
        node_item(name, taints=[{"key": "t", "value": "1", "effect": "NoSchedule"}]) for name in ("n0", "n1")
    ]
    for node in nodes:
        node["metadata"]["labels"] |= {"k": "v", "q": "2", "topology.kubernetes.io/zone": "z"}
    budget = budget_item("b", "a", 1)
    budget["spec"]["selector"]["matchExpressions"] = [{"key": "app", "operator": "Exists"}]
    found: dict[str, Any] = json.loads(listed(*nodes, pod, pod_item("b-abc-x", "n1", owner="b"), budget))
    return found


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.filterwarnings("error")
def test_every_field_of_another_kind_is_read_or_refused() -> None:
    whole = document()
    cluster_from_kubectl(json.dumps(whole), where="c")
    refusals = 0
    for path in places(whole):
        for wrong in WRONG:
            changed = copy.deepcopy(whole)
            at: Any = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = wrong
            try:
                cluster_from_kubectl(json.dumps(changed), where="c")
            except InputError:
                refusals += 1
    assert refusals > 500


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"priority": "high"}, r"items\[1\]\.spec\.priority: Expected `int \| null`"),
        ({"nodeSelector": ["a"]}, r"items\[1\]\.spec\.nodeSelector: Expected `object"),
        ({"overhead": {"cpu": "1e30"}}, r"items\[1\]\.spec\.overhead\.cpu: is more than 2\^63"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    (tmp_path / "c.json").write_text(listed(node_item("a"), pod_item("p", "a", **spec)))
    refused(run("pack", str(tmp_path / "c.json")), told)


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ((node_item("--selector="),), r"items\[0\]\.metadata\.name: '--selector=' begins with '-'"),
        (
            (node_item("a"), pod_item("p", "a", owner="--all", kind="StatefulSet")),
            r"items\[1\]\.metadata\.ownerReferences: '--all' begins with '-'",
        ),
        (
            ({**node_item("a"), "status": {"allocatable": {"cpu": "4"}}},),
            r"items\[0\]\.status\.allocatable\.memory: is missing",
        ),
    ],
)
def test_a_name_that_would_be_an_option_and_a_size_that_is_missing(
    tmp_path: Path, items: tuple[dict[str, Any], ...], told: str
) -> None:
    (tmp_path / "c.json").write_text(listed(*items))
    refused(run("pack", str(tmp_path / "c.json")), told)


def answer(folder: Path, *items: dict[str, Any], usage: str | None = None) -> dict[str, Any]:
    (folder / "c.json").write_text(listed(*items))
    options = ["--dial", "0", "--json", "-o", str(folder / "kubectl.sh"), "--to", "kubernetes"]
    if usage is not None:
        (folder / "u.csv").write_text(usage)
        options += ["--usage", str(folder / "u.csv")]
    result = run("pack", str(folder / "c.json"), *options)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_no_node_is_given_more_pods_than_it_takes(tmp_path: Path) -> None:
    nodes = [node_item(f"n{at}") for at in range(4)]
    for node in nodes:
        node["status"]["allocatable"]["pods"] = "5"
    pods = [pod_item(f"p{at}-abc-x", f"n{at // 2}", "10m", owner=f"p{at}") for at in range(8)]
    found = answer(tmp_path, *nodes, *pods)
    counts = [sum(task["node"] == f"n{at}" for task in found["tasks"]) for at in range(4)]
    assert max(counts) <= 5
    assert len(found["freed"]) == 2


def test_a_pod_with_a_gpu_stays(tmp_path: Path) -> None:
    pod = pod_item("g-abc-x", "a", owner="g")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    found = answer(tmp_path, node_item("a"), node_item("b"), pod, pod_item("h-abc-x", "b", "2", owner="h"))
    assert found["freed"] == ["b"]
    assert found["tasks"][0]["stays"] == "it requests nvidia.com/gpu, which is not packed"


def test_a_pod_of_which_nothing_is_known_stays(tmp_path: Path) -> None:
    nodes = [node_item(f"n{at}") for at in range(3)]
    pods = [pod_item(f"p{at}-abc-x", f"n{at}", owner=f"p{at}") for at in range(3)]
    for pod in pods:
        del pod["spec"]["containers"][0]["resources"]
    found = answer(tmp_path, *nodes, *pods)
    assert found["moves"] == []
    assert {one["stays"] for one in found["tasks"]} == {"its cores are neither requested nor known from use"}
    rows = usage_rows({f"shop/p{at}-abc-x": 0.2 for at in range(3)})
    assert len(answer(tmp_path, *nodes, *pods, usage=rows)["freed"]) == 2
    without_memory = "".join(row.rpartition(",")[0] + "\n" for row in rows.splitlines())
    found = answer(tmp_path, *nodes, *pods, usage=without_memory)
    assert {one["stays"] for one in found["tasks"]} == {"its memory is neither requested nor known from use"}
    commands = (tmp_path / "kubectl.sh").read_text()
    assert '"cpu":' in commands
    assert "memory" not in commands


def test_a_cluster_without_pods_closes_no_node(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(listed(node_item("a")))
    result = run("pack", str(tmp_path / "c.json"))
    assert result.exit_code == 0
    assert "receive nothing" not in result.stderr

"""`kwiken pack`: what is told and written, on a document of a real server, and one line for each bad input."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.allocation.packing.clusters import (
    budget_item,
    four_nodes,
    listed,
    node_item,
    pod_item,
    usage_rows,
)
from tests.support.project.commands import ROOT, refused, run
from tests.support.runtime.server_processes import KWIKEN

REAL = (
    ROOT / "tests" / "support" / "allocation" / "packing" / "kubectl-60-nodes.json.gz"
)  # of a kube-apiserver 1.34.4
PODS = {f"shop/app{at}-abc-x": 0.2 for at in range(8)}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "cluster.json").write_text(four_nodes())
    (tmp_path / "usage.csv").write_text(usage_rows(PODS))
    return tmp_path


def packed(folder: Path, *options: str) -> dict[str, Any]:
    result = run(
        "pack", str(folder / "cluster.json"), "--usage", str(folder / "usage.csv"), "--json", *options
    )
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_tables_tell_requests_moves_and_the_frontier(files: Path) -> None:
    result = run(
        *("pack", str(files / "cluster.json"), "--usage", str(files / "usage.csv"), "--dial", "2"),
        *(
            "--judge",
            str(files / "usage.csv"),
            "-o",
            str(files / "pack.json"),
        ),
    )
    assert result.exit_code == 0, result.stderr
    for told in ("cores stated", "moves, in order", "frontier", "nodes 4 to 1", "in the later usage"):
        assert told in result.stdout
    assert re.search(r"node-\d: 4 cores, 17.18 GB", result.stdout)
    written = json.loads((files / "pack.json").read_text())
    assert written["version"] == 1
    assert written["after"]["nodes"] == 1
    assert len(written["moves"]) == 6


def test_each_freed_node_is_told_at_the_last_of_its_moves(files: Path) -> None:
    found = packed(files, "--dial", "0")
    assert len(found["freed"]) == 3
    assert [one["frees"].partition(":")[0] for one in found["moves"] if one["frees"]] == found["freed"]
    for freed in found["freed"]:
        last = max(at for at, one in enumerate(found["moves"]) if one["from"] == freed)
        assert found["moves"][last]["frees"].startswith(f"{freed}:")


def test_the_document_of_a_real_server_is_packed_and_its_commands_keep_budgets(tmp_path: Path) -> None:
    document = gzip.decompress(REAL.read_bytes())
    items = json.loads(document)["items"]
    (tmp_path / "cluster.json").write_bytes(document)
    names = [
        f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for one in items
        if one["kind"] == "Pod" and one["metadata"]["namespace"] != "kube-system"
    ]
    assert sum(one["kind"] == "Node" for one in items) >= 50
    (tmp_path / "usage.csv").write_text(usage_rows(dict.fromkeys(names, 0.2)).replace("node-0", "node-000"))
    out = tmp_path / "pack.sh"
    result = run(
        *("pack", str(tmp_path / "cluster.json"), "--usage", str(tmp_path / "usage.csv")),
        *("--to", "kubernetes", "-o", str(out)),
    )
    assert result.exit_code == 0, result.stderr
    script = out.read_text()
    assert "--force" not in script
    assert "--disable-eviction" not in script
    commands = [shlex.split(line) for line in script.splitlines() if line.startswith(("resize ", "free "))]
    drained = [words[1] for words in commands if words[0] == "free"]
    assert drained
    frozen = {
        one["metadata"]["name"]
        for one in items
        if one["kind"] == "PodDisruptionBudget" and not one["status"]["disruptionsAllowed"]
    }
    containers = {
        one["metadata"]["ownerReferences"][0]["name"].rpartition("-")[0]: one["spec"]["containers"]
        for one in items
        if one["kind"] == "Pod"
    }
    standing = {
        one["spec"]["nodeName"]
        for one in items
        if one["kind"] == "Pod" and one["metadata"]["labels"].get("app") in frozen
    }
    assert not standing & set(drained)
    patched = 0
    for words in commands:
        if words[0] != "resize":
            continue
        patched += 1
        kind, name, _, patch = words[1:]
        assert kind == "deployment"
        spec = json.loads(patch)["spec"]
        assert {one["name"] for one in spec["template"]["spec"]["containers"]} == {
            one["name"] for one in containers[name]
        }
    assert patched > 30


def test_a_budget_that_lets_none_go_keeps_its_node(tmp_path: Path) -> None:
    items = json.loads(four_nodes())["items"]
    (tmp_path / "cluster.json").write_text(listed(*items, budget_item("app0", "app0", 0)))
    (tmp_path / "usage.csv").write_text(usage_rows(PODS))
    found = packed(tmp_path, "--dial", "0")
    assert "node-0" not in found["freed"]
    assert all(one["task"] != "shop/app0-abc-x" for one in found["moves"])
    assert "disruption budget shop/app0" in str(found["tasks"][0]["stays"])


def test_rules_of_the_scheduler_are_kept(tmp_path: Path) -> None:
    nodes = [node_item(f"node-{at}") for at in range(3)]
    nodes.append(node_item("node-3", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    nodes[1]["metadata"]["labels"]["disk"] = "ssd"
    pods = [
        pod_item("a", "node-0", owner="a", nodeSelector={"disk": "ssd"}),
        pod_item("b", "node-1", owner="b"),
        pod_item("c", "node-2", owner="c", volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
        pod_item("agent", "node-3", owner="agent", kind="DaemonSet"),
        pod_item("lone", "node-2", owner="d"),
    ]
    pods[-1]["metadata"].pop("ownerReferences")
    (tmp_path / "cluster.json").write_text(listed(*nodes, *pods))
    (tmp_path / "usage.csv").write_text(usage_rows({f"shop/{name}": 0.2 for name in ("a", "b", "c", "lone")}))
    found = packed(tmp_path, "--dial", "0")
    stays = {one["task"]: one["stays"] for one in found["tasks"]}
    assert "folder of its node" in stays["shop/c"]
    assert "no owner" in stays["shop/lone"]
    assert {one["task"]: one["to"] for one in found["moves"]}.get("shop/a", "node-1") == "node-1"
    assert all(one["to"] != "node-3" for one in found["moves"])
    assert found["before"]["nodes"] == 3  # the node of the DaemonSet alone is not in use


@pytest.mark.parametrize("tainted", [True, False])
def test_no_pod_moves_to_a_node_whose_taint_it_does_not_tolerate(tmp_path: Path, tainted: bool) -> None:
    """The only node that could be freed is the open one: the other holds a pod that must stay on it."""
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = [node_item("open"), node_item("gpu", taints=[taint] if tainted else [])]
    stays: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/hostname": "gpu"},
        "tolerations": [{"operator": "Exists"}],
    }
    pods = [pod_item("plain", "open", owner="plain"), pod_item("trained", "gpu", owner="trained", **stays)]
    (tmp_path / "cluster.json").write_text(listed(*nodes, *pods))
    (tmp_path / "usage.csv").write_text(usage_rows({"shop/plain": 0.2, "shop/trained": 0.2}))
    found = packed(tmp_path, "--dial", "0")
    moves = [(one["task"], one["to"]) for one in found["moves"]]
    assert moves == ([] if tainted else [("shop/plain", "gpu")])


def test_a_placement_is_packed_too(tmp_path: Path) -> None:
    examples = ROOT / "examples" / "allocator"
    run("classify", str(examples / "measurements.toml"), "-o", str(tmp_path / "profiles.json"))
    placed = run(
        *("place", str(examples / "nodes.toml"), str(examples / "workloads.toml")),
        *("--profiles", str(tmp_path / "profiles.json"), "-o", str(tmp_path / "placement.json")),
    )
    assert (tmp_path / "placement.json").exists(), placed.stderr
    result = run("pack", str(tmp_path / "placement.json"), "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["tasks"]


def prometheus(*series: tuple[str, float]) -> str:
    return json.dumps(
        {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [
                    {
                        "metric": {"namespace": "shop", "pod": pod},
                        "values": [[at * 60, str(level)] for at in range(30)],
                    }
                    for pod, level in series
                ],
            },
        }
    )


def test_usage_of_prometheus_is_read(files: Path) -> None:
    names = [name.partition("/")[2] for name in PODS]
    (files / "cores.json").write_text(prometheus(*((name, 0.25) for name in names)))
    (files / "memory.json").write_text(prometheus(*((name, 2e8) for name in names)))
    result = run(
        *("pack", str(files / "cluster.json"), "--usage", str(files / "cores.json")),
        *("--memory-usage", str(files / "memory.json"), "--json"),
    )
    assert result.exit_code == 0, result.stderr
    task = json.loads(result.stdout)["tasks"][0]
    assert task["memory_gb"] == pytest.approx(0.21)
    assert task["cores"] == pytest.approx(0.25)


def test_replicas_and_nodes_that_are_gone_are_named_and_counted(files: Path) -> None:
    text = usage_rows({**PODS, "shop/gone": 0.1}).replace(",node-0,", ",node-9,")
    (files / "usage.csv").write_text(text)
    result = run("pack", str(files / "cluster.json"), "--usage", str(files / "usage.csv"), "--json")
    assert result.exit_code == 0
    assert "1 replicas of the usage are not in the cluster: shop/gone" in result.stderr
    assert "1 nodes of the usage are not in the cluster: node-9" in result.stderr


def test_tasks_without_use_keep_their_requests(files: Path) -> None:
    (files / "usage.csv").write_text(usage_rows({"shop/app0-abc-x": 0.2, "shop/app1-abc-x": 0.2}))
    found = packed(files)
    assert [one["cores"] for one in found["tasks"][2:]] == [1.0] * 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time,replica\n0,a\n", r"usage.csv:1: has no column 'cores'"),
        ("time,replica,cores,x\n0,a,1,1\n", r"usage.csv:1: column 'x' is unknown"),
        ("time,replica,cores\n0,shop/app0-abc-x,nan\n", r"usage.csv:2: cores: must be a number from 0"),
        ("time,replica,cores\n0,shop/app0-abc-x,-1\n", r"usage.csv:2: cores: must be a number from 0"),
        ("time,replica,cores\nsoon,shop/app0-abc-x,1\n", r"usage.csv:2: time: 'soon' is neither"),
        ("time,replica,cores\n0,shop/app0-abc-x\n", r"usage.csv:2: has 2 cells, and the header 3"),
        ("time,replica,cores\n0,shop/app0-abc-x,1\n", r"all samples are of one time"),
        (
            "time,replica,cores\n0,shop/app0-abc-x,1\n0,shop/app0-abc-x,1\n",
            r"two samples of the time 0|one time",
        ),
        ("time,replica,cores\n0,a,1\n5,b,1\n", r"2 of 2 replicas are not in the cluster, such as a, b"),
        ("time,replica,cores\n", r"holds no sample"),
        ('{"data": 1}', r"is no range result of Prometheus"),
        ('time,replica,cores\n0,"a,1\n', r"broken CSV"),
        ('time,"replica\n', r"usage.csv:1: broken CSV"),
        ("time,replica,cores,memory,memory_gb\n", r"usage.csv:1: has memory and memory_gb"),
        ("time,replica,cores\nnow,a,1\n", r"usage.csv:2: time: 'now' is neither seconds nor"),
        ("time,replica,cores\n2026-01-01T00:00+02:00,a,1\n", r"usage.csv:2: time: .* is neither"),
        ("time,replica,cores\n2026-02-31,a,1\n", r"usage.csv:2: time: '2026-02-31' is no moment"),
        ("time,replica,cores\n1e300,a,1\n", r"usage.csv:2: time: must be seconds from"),
        (
            '{"data": {"resultType": "matrix", "result": [{"metric": {"pod": "a"}, "values": 1}]}}',
            r"data.result\[0\]: values: must be a list of pairs",
        ),
    ],
)
def test_wrong_usage_is_one_line(files: Path, text: str, told: str) -> None:
    (files / "usage.csv").write_text(text)
    refused(run("pack", str(files / "cluster.json"), "--usage", str(files / "usage.csv")), told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"items": 1}, r"is no list of Kubernetes"),
        ({"items": []}, r"lists no node"),
        ({"items": [{"kind": 3}]}, r"items\[0\].kind: is missing"),
        ({"items": [node_item("a"), node_item("a")]}, r"the node 'a' is given twice"),
        ({"items": [node_item("a", cpu="x")]}, r"items\[0\].status.allocatable.cpu: 'x' is no quantity"),
        ({"items": [node_item("a", cpu="0")]}, r"cores must be a finite number above 0"),
        ({"items": [node_item("a"), pod_item("p", "b")]}, r"no node 'b' in the list"),
        ({"items": [node_item("a"), pod_item("p", "a"), pod_item("p", "a")]}, r"'shop/p' is given twice"),
        ({"items": [node_item("a"), pod_item("p", "a", cpu="-1")]}, r"requests.cpu: '-1' is no quantity"),
        ({"items": [node_item("a"), budget_item("b", "x", -1)]}, r"disruptionsAllowed: must be 0 or more"),
    ],
)
def test_a_wrong_cluster_is_one_line(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(change))
    refused(run("pack", str(path)), told)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--dial", "nan"), r"out of range"),
        (("--dial", "11"), r"out of range"),
        (("--dial", "3", "--risk", "0.1"), r"choose one"),
        (("--keep-p99",), r"--keep-p99 was removed"),
        (("--risk", "2"), r"out of range"),
        (("--moves", "-1"), r"-1"),
        (("--memory-usage", "x"), r"says nothing without --usage"),
        (("--to", "kubernetes"), r"--to needs -o FILE"),
        (("-o", "-", "--json"), r"both write to stdout"),
        (("--picture", "-"), r"--picture was removed"),
    ],
)
def test_wrong_options_are_one_line(files: Path, options: tuple[str, ...], told: str) -> None:
    refused(run("pack", str(files / "cluster.json"), *options), told)


def test_a_wish_that_no_state_is_within_is_told(files: Path) -> None:
    (files / "usage.csv").write_text(usage_rows(dict.fromkeys(PODS, 1.9)))
    told = run(
        *("pack", str(files / "cluster.json"), "--usage", str(files / "usage.csv")), "--risk", "0.000000001"
    )
    assert told.exit_code == 0, told.stderr
    assert "no state is within --risk 1e-09, so no move is proposed" in told.stderr


def test_the_file_is_written_where_nobody_reads_the_tables_to_their_end(files: Path) -> None:
    """As `kwiken pack ... -o F | head -1` does; the reader is gone before the first line."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [*KWIKEN, "pack", str(files / "cluster.json"), "--usage", str(files / "usage.csv")]
    try:
        subprocess.run([*words, "-o", str(files / "pack.json")], stdout=writer, timeout=120, check=False)
    finally:
        os.close(writer)
    assert json.loads((files / "pack.json").read_text())["version"] == 1

"""Script of `kwiken pack --to kubernetes`: room for rollouts, budgets, and what is put back and named."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.support.allocation.packing.clusters import listed, node_item, pod_item, usage_rows
from tests.support.allocation.packing.kubectl import complete, free_millicores, run_with_kubectl, state_of
from tests.support.project.commands import run

Item = dict[str, Any]


def packed(folder: Path, items: list[Item], use: float, *options: str) -> Path:
    """Script for a cluster whose pods use so many cores."""
    (folder / "c.json").write_text(listed(*items))
    pods = {f"shop/{one['metadata']['name']}": use for one in items if one["kind"] == "Pod"}
    (folder / "u.csv").write_text(usage_rows(pods))
    words = ("pack", str(folder / "c.json"), "--usage", str(folder / "u.csv"), "--to", "kubernetes")
    result = run(*words, "-o", str(folder / "pack.sh"), *options)
    assert result.exit_code == 0, result.stderr
    return folder / "pack.sh"


def outcome(script: Path, before: Item, *options: str) -> tuple[Item, int, str]:
    """State of the cluster after the script, exit code, and what the script said last."""
    state: Item = copy.deepcopy(before)
    code, said = run_with_kubectl(script, script.parent, state, *options)
    return state, code, (said.splitlines() or [""])[-1]


def spread_out(apps: int, replicas: int, nodes: int, cpu: str = "1") -> list[Item]:
    """Deployments whose pods stand on all nodes in turn, beside one another."""
    found = [node_item(f"node-{at}") for at in range(nodes)]
    for at in range(apps * replicas):
        app = f"app{at // replicas}"
        found.append(pod_item(f"{app}-abc-{at}", f"node-{at % nodes}", cpu, owner=app))
    return found


def unbroken(state: Item) -> bool:
    return all(complete(one) for one in state["deployments"].values())


def test_requests_follow_use_and_nodes_are_freed_while_no_rollout_takes_a_pod_away(tmp_path: Path) -> None:
    items = spread_out(4, 4, 6)
    script = packed(tmp_path, items, 0.4, "--dial", "2")
    state, code, said = outcome(script, state_of(items, {}))
    assert code == 0, said
    assert unbroken(state)
    closed = [name for name, node in state["nodes"].items() if node["closed"]]
    assert closed
    assert all(free_millicores(state, name) == 4000 for name in closed)
    deployments = state["deployments"].values()
    assert all(one["cpu"] < 1000 and one["lowest"] >= one["count"] - 1 for one in deployments)
    assert all(one["strategy"]["rollingUpdate"]["maxSurge"] == "25%" for one in deployments)


def test_a_rollout_has_ended_before_the_next_begins_and_all_before_the_first_drain(tmp_path: Path) -> None:
    items = spread_out(4, 4, 6)
    state, *_ = outcome(packed(tmp_path, items, 0.4, "--dial", "2"), state_of(items, {}))
    verbs = [words[0] for words in state["log"]]
    assert "patch" not in verbs[verbs.index("drain") :]
    sized = [at for at, words in enumerate(state["log"]) if words[0] == "patch" and "strategic" in words]
    assert len(sized) == 4
    for at in sized:
        assert state["log"][at + 1][:2] == ["rollout", "status"]


def test_a_rollout_without_room_is_undone_and_named(tmp_path: Path) -> None:
    """Every node is full by what it requests, and use is above the requests, so that pods grow."""
    items = spread_out(2, 4, 2)
    script = packed(tmp_path, items, 1.2)
    state, code, said = outcome(script, state_of(items, {}))
    assert code == 1
    for name in state["deployments"]:
        assert f"deployment/shop/{name}" in said
    assert unbroken(state)
    assert all(one["cpu"] == 1000 for one in state["deployments"].values())
    assert all(
        one["strategy"]["rollingUpdate"]["maxUnavailable"] == "25%" for one in state["deployments"].values()
    )


def test_a_node_whose_pods_have_no_room_elsewhere_takes_pods_again_and_is_named(tmp_path: Path) -> None:
    """The cluster filled up since it was listed: a Deployment that the document does not know."""
    items = spread_out(4, 4, 6)
    script = packed(tmp_path, items, 0.4, "--dial", "0")
    late = [pod_item(f"late-abc-{at}", f"node-{at}", "1200m", owner="late") for at in range(6)]
    state, code, said = outcome(script, state_of([*items, *late], {}))
    assert code == 1
    assert "node/node-" in said
    assert unbroken(state)
    named = {word.removeprefix("node/") for word in said.split() if "node/" in word}
    assert not any(state["nodes"][name]["closed"] for name in named)


def test_a_budget_that_lets_none_go_keeps_its_node_in_use(tmp_path: Path) -> None:
    """The budget came after the document was written."""
    items = spread_out(4, 4, 6)
    script = packed(tmp_path, items, 0.4, "--dial", "2")
    state, code, _ = outcome(script, state_of(items, {f"app{at}": 0 for at in range(4)}))
    assert code == 1
    assert unbroken(state)
    assert not any(node["closed"] for node in state["nodes"].values())
    assert all(one["lowest"] == one["count"] for one in state["deployments"].values())


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    items = spread_out(4, 4, 6)
    before = state_of(items, {})
    state, code, said = outcome(packed(tmp_path, items, 0.4, "--dial", "2"), before, "--dry-run")
    assert code == 0, said
    assert {**state, "log": []} == before
    changing = [words for words in state["log"] if words[0] in {"patch", "cordon", "drain"}]
    assert {words[0] for words in changing} == {"patch", "cordon", "drain"}
    assert all("--dry-run=server" in words for words in changing)


@pytest.mark.parametrize("use", [0.45, 0.9])
def test_freed_nodes_leave_room_for_one_more_pod_of_every_deployment(tmp_path: Path, use: float) -> None:
    items = spread_out(6, 4, 8)
    state, code, said = outcome(packed(tmp_path, items, use, "--dial", "0"), state_of(items, {}))
    assert code == 0, said
    opened = [name for name, node in state["nodes"].items() if not node["closed"]]
    most = max(one["cpu"] for one in state["deployments"].values())
    assert max(free_millicores(state, name) for name in opened) >= most


def test_a_node_that_is_the_room_for_rollouts_is_not_drained(tmp_path: Path) -> None:
    """Use is steady at a quarter of a node, so that eight pods fill two nodes to the last core."""
    items = spread_out(2, 4, 4)
    script = packed(tmp_path, items, 0.9, "--dial", "0")
    assert "Not drained, as room for one more pod of each Deployment: node-" in script.read_text()
    state, code, said = outcome(script, state_of(items, {}))
    assert code == 0, said
    assert sum(node["closed"] for node in state["nodes"].values()) == 1

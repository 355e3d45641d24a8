"""Stand-in for kubectl and its cluster: pods are scheduled by requests, rollouts surge, evictions keep budgets.

Every command lets the cluster settle first, so nothing depends on time: what is stuck then stays stuck, as after
a timeout.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

State = dict[str, Any]


def state_of(items: list[dict[str, Any]], allowed: dict[str, int]) -> State:
    """State of a cluster as kubectl lists it.

    Args:
        items: nodes and pods of Deployments.
        allowed: name of a Deployment to the number of its pods that a budget lets be away; one by default.
    """
    nodes = {
        one["metadata"]["name"]: {"cpu": millicores(one["status"]["allocatable"]["cpu"]), "closed": False}
        for one in items
        if one["kind"] == "Node"
    }
    found: dict[str, Any] = {}
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    for item in (one for one in items if one["kind"] == "Pod"):
        cpu = millicores(item["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        name = item["metadata"]["labels"]["app"]
        one = found.setdefault(
            name,
            {
                "cpu": cpu,
                "before": cpu,
                "count": 0,
                "lowest": 0,
                "pods": [],
                "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "allowed": allowed.get(name, 1),
            },
        )
        one["pods"].append({"cpu": cpu, "node": item["spec"]["nodeName"]})
        one["count"] = one["lowest"] = len(one["pods"])
    return {"nodes": nodes, "deployments": found, "log": []}


def free_millicores(state: State, node: str) -> int:
    used = sum(
        pod["cpu"] for one in state["deployments"].values() for pod in one["pods"] if pod["node"] == node
    )
    return int(state["nodes"][node]["cpu"] - used)


def schedule(state: State) -> None:
    """Set pending pods onto open nodes, the emptiest first."""
    for one in state["deployments"].values():
        for pod in one["pods"]:
            nodes = [
                name
                for name, node in state["nodes"].items()
                if not node["closed"] and free_millicores(state, name) >= pod["cpu"]
            ]
            if pod["node"] is None and nodes:
                pod["node"] = max(nodes, key=lambda name: free_millicores(state, name))


def standing(one: State) -> int:
    return sum(pod["node"] is not None for pod in one["pods"])


def settle(state: State) -> None:
    """Let schedulers and rollouts work until nothing changes."""
    before = None
    while before != json.dumps(state):
        before = json.dumps(state)
        schedule(state)
        for one in state["deployments"].values():
            rolling = one["strategy"]["rollingUpdate"]
            away = one["count"] // 4 if rolling["maxUnavailable"] == "25%" else rolling["maxUnavailable"]
            more = -(-one["count"] // 4) if rolling["maxSurge"] == "25%" else rolling["maxSurge"]
            old = [pod for pod in one["pods"] if pod["cpu"] != one["cpu"]]
            pending = [pod for pod in old if pod["node"] is None]
            if pending:
                one["pods"].remove(pending[0])
            elif old and standing(one) > one["count"] - away:
                one["pods"].remove(old[0])
            new = sum(pod["cpu"] == one["cpu"] for pod in one["pods"])
            if new < one["count"] and len(one["pods"]) < one["count"] + (more if old else 0):
                one["pods"].append({"cpu": one["cpu"], "node": None})
            one["lowest"] = min(one["lowest"], standing(one))


def complete(one: State) -> bool:
    return standing(one) == one["count"] == len(one["pods"]) and all(
        pod["cpu"] == one["cpu"] for pod in one["pods"]
    )


def millicores(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def command(state: State, words: list[str]) -> tuple[int, str]:
    """Exit code and output of one command."""
    settle(state)
    state["log"].append(words)
    if words[0] == "get":
        return 0, listing(state, words[1:])
    code = change(state, words) if "--dry-run=server" not in words else 0
    settle(state)
    return code, ""


def listing(state: State, words: list[str]) -> str:
    """Output of a command that reads."""
    match words:
        case ["deployment", name, *_]:
            return json.dumps(state["deployments"][name]["strategy"], separators=(",", ":"))
        case ["pods", *rest]:
            node = rest[rest.index("--field-selector") + 1].removeprefix("spec.nodeName=")
            return "".join(
                f"ReplicaSet   {name}-abc   shop\n"
                for name, one in state["deployments"].items()
                if any(pod["node"] == node for pod in one["pods"])
            )
        case ["replicaset", name, *_]:
            return f"Deployment   {name.removesuffix('-abc')}   shop\n"
    raise ValueError(words)


def change(state: State, words: list[str]) -> int:
    """Exit code of a command that changes something, or that waits for a change."""
    match words:
        case ["patch", "deployment", name, *rest]:
            patch, one = json.loads(rest[rest.index("--patch") + 1]), state["deployments"][name]
            if "json" in rest:
                one["strategy"] = patch[0]["value"]
            else:
                [container] = patch["spec"]["template"]["spec"]["containers"]
                one["before"], one["cpu"] = one["cpu"], millicores(container["resources"]["requests"]["cpu"])
        case ["rollout", "undo", "deployment", name, *_]:
            state["deployments"][name]["cpu"] = state["deployments"][name]["before"]
        case ["rollout", "status", _, name, *_]:
            return int(not complete(state["deployments"][name]))
        case ["cordon" | "uncordon" as verb, node, *_]:
            state["nodes"][node]["closed"] = verb == "cordon"
        case ["drain", node, *_]:
            return evict(state, node)
        case _:
            raise ValueError(words)
    return 0


def evict(state: State, node: str) -> int:
    """Evict the pods of a node one after another; 1 where a budget holds one back for good."""
    for one in state["deployments"].values():
        for pod in [pod for pod in one["pods"] if pod["node"] == node]:
            if one["count"] - standing(one) >= one["allowed"]:
                return 1
            one["pods"].remove(pod)
            settle(state)
    return 0


def run_with_kubectl(script: Path, folder: Path, state: State, *options: str) -> tuple[int, str]:
    """Exit code and stderr of a script whose kubectl changes the state.

    Args:
        folder: for the program and its two pipes.
    """
    asked, answered, program = folder / "asked", folder / "answered", folder / "kubectl"
    program.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{asked}\n{{ read -r code; cat; exit $code; }} <{answered}\n"
    )
    program.chmod(0o755)
    for pipe in (asked, answered):
        os.mkfifo(pipe)
    problems: list[Exception] = []

    def serve() -> None:
        while words := asked.read_text().splitlines():
            try:
                code, out = command(state, words)
            except (KeyError, ValueError) as error:
                problems.append(error)
                code, out = 1, ""
            answered.write_text(f"{code}\n{out}")

    server = threading.Thread(target=serve)
    server.start()
    env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    words = ["sh", str(script), *options]
    try:
        ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    finally:
        asked.write_text("")
        server.join()
    assert not problems, problems
    return ended.returncode, ended.stderr

"""`kwiken up` with several services: one supervisor, one ledger of nodes, and no second `up` on those nodes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.allocator.workloads.profile import profiles_to_json
from kwiken.runtime.base.process_id import Identity
from tests.support.project.commands import ROOT, refused, run
from tests.support.runtime.clusters import profile
from tests.support.runtime.leftovers import commands_with, groups_of, new_mark
from tests.support.runtime.waiting import soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
TARGETS = ("services.trio:digest", "services.trio:pack")
NODES = """
classes = [{ name = "quick", cores = 0.4, memory_gb = 2, speed = 1.0 }]
nodes = [{ name = "a", class = "quick" }, { name = "b", class = "quick" }, { name = "c", class = "quick" }]
"""
WORKLOAD = """
[[workloads]]
name = "{service}"
memory_gb = 0.1
service = "{service}"
stage = "{stage}"
target = {{ p99_ms = 500, rate_per_s = 80 }}
"""


class Files:
    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.mark = new_mark("KWIKEN_TEST_UP")
        services = (("digest", "hashing"), ("pack", "packing"))
        workloads = "".join(WORKLOAD.format(service=name, stage=stage) for name, stage in services)
        profiles = tuple(profile({0.4: 100.0}, {"quick": 1.0}, name=name) for name, _ in services)
        texts = {"nodes": NODES, "workloads": workloads, "profiles": profiles_to_json(profiles)}
        self.options = ["--state", str(self.state), "--port", "0", "--grace", "1"]
        for name, text in texts.items():
            (folder / name).write_text(text)
            self.options += [f"--{name}", str(folder / name)]

    def up(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kwiken", "up", *self.options, *words]
        env = {**os.environ, self.mark[0]: self.mark[1]}
        return subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
        )

    def clusters(self) -> list[dict[str, Any]]:
        found = json.loads(run("status", "--state", str(self.state), "--json").stdout)
        return list(found["clusters"])


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    run("down", "--state", str(files.state))


@pytest.mark.slow
def test_two_services_share_nodes_lose_one_and_stop_together(files: Files) -> None:
    done = files.up(*TARGETS, "--detach", "--target-p99", "digest=400")
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 2
    clusters = files.clusters()
    assert [each["service"] for each in clusters] == ["digest", "pack"]
    assert [each["url"] for each in clusters] == done.stdout.split()
    (supervisor,) = {each["supervisor"]["pid"] for each in clusters}
    places = {each["service"]: replica["node"] for each in clusters for replica in each["replicas"]}
    assert len(set(places.values())) == 2  # one node has room for one replica

    second = files.up(TARGETS[0].replace("digest", "order"), "--detach")
    assert second.returncode == 2  # it has no workload here
    second = files.up(TARGETS[1], "--detach", "--state", str(files.state / "other"))
    assert second.returncode == 2
    assert "another kwiken up has its replicas on these nodes" in second.stderr

    (victim,) = [replica["pid"] for replica in clusters[1]["replicas"]]
    others = set(commands_with(files.mark)) - {victim}

    def lost() -> bool:
        """Kill what runs on the node, and what is started there, until it counts as lost."""
        there = set(commands_with(files.mark)) - others
        if any("was lost" in line for each in files.clusters() for line in each["actions"]):
            return True
        for pid in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return False

    soon(lost)

    def moved() -> bool:
        replicas = next(each for each in files.clusters() if each["service"] == "pack")["replicas"]
        return bool(replicas) and replicas[0]["node"] not in {places["pack"], places["digest"]}

    soon(moved)
    assert len(commands_with(files.mark)) >= 5  # the supervisor, two gateways, two replicas
    result = run("down", "--state", str(files.state), "digest")
    assert result.stderr.splitlines() == ["digest is stopped", "pack is stopped"]
    assert Identity.of(supervisor) is None
    soon(lambda: not commands_with(files.mark))
    assert groups_of(supervisor) == []
    assert run("status", "--state", str(files.state)).exit_code == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((*TARGETS, "--plan", "plan.json"), "--plan: is for one service; give several services none"),
        ((*TARGETS, "--grpc-port", "0"), "--grpc-port: is for one service; give several services none"),
        ((*TARGETS, "--port", "65535"), "--port: 2 services need as many ports from 65535 on"),
        ((TARGETS[0], TARGETS[0]), "services.trio:digest: service 'digest' is given twice"),
        ((*TARGETS, "--replicas", "sorting=2"), "sorting"),
    ],
)
def test_what_cannot_hold_for_several_services_is_refused(words: tuple[str, ...], problem: str) -> None:
    refused(run("up", *words), problem)


def test_services_are_started_in_the_order_in_which_they_are_given() -> None:
    assert "kwiken up [OPTIONS] SERVICE [SERVICE]..." in run("up", "--help").stdout
    refused(run("up", *TARGETS, TARGETS[0]), "services.trio:digest: service 'digest' is given twice")
    refused(
        run("up", TARGETS[0], "nowhere:service", "also.nowhere:service"),
        "module nowhere: there is no such module",
    )


def test_replicas_are_given_to_the_service_that_has_the_stage() -> None:
    from kwiken.cli.live.up import load_services, replica_counts

    services = load_services(TARGETS)
    assert replica_counts(services, ["packing=3"]) == {"digest": {}, "pack": {"packing": 3}}

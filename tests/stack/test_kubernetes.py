"""A service that `kwiken export` wrote, in a real Kubernetes whose pods are processes of this machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwiken.allocator.workloads.profile import profiles_to_json
from kwiken.upkeep.kubernetes.pods import giving_up, noting, placing
from tests.support.pods.karpenter import refused_by_karpenter
from tests.support.pods.kubernetes import Kubelet, Kubernetes, programs, running_kubernetes
from tests.support.pods.name_server import can_ask_alone, name_server
from tests.support.project.commands import run
from tests.support.runtime.clusters import profile
from tests.support.runtime.server_processes import KWIKEN, ROOT, ask

TARGET = "tests.support.services.single:service"
TOKEN = "of-the-gateways"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/single-work"
PODS = "/api/v1/namespaces/default/pods?labelSelector=app.kubernetes.io/component={}"
MERGE = "application/merge-patch+json"
DOCUMENTS = {
    "nodes.toml": """
classes = [{ name = "quick", cores = 2, memory_gb = 2, speed = 1.0 }]
nodes = [{ name = "example", class = "quick" }]
""",
    # A call waits for 20 ms, so this p99 is missed whatever the replicas are: the upkeep adds some.
    "workloads.toml": """
[[workloads]]
name = "single/work"
memory_gb = 0.1
service = "single"
stage = "work"
spread = "node"
target = { rate_per_s = 60, p99_ms = 15 }
""",
    "profiles.json": profiles_to_json((profile({0.5: 50.0, 1: 100.0}, {"quick": 1.0}, name="single/work"),)),
}

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(600),
    pytest.mark.skipif(programs() is None, reason="KUBERNETES_BIN names no folder with an API server"),
    pytest.mark.skipif(not can_ask_alone(), reason="needs root, to give processes a name server"),
]


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    binaries = programs()
    assert binaries is not None
    with running_kubernetes(tmp_path_factory.mktemp("kubernetes"), binaries) as found:
        for number in range(4):
            found.add_node(f"node-{number}", "quick")
        yield found


def exported(folder: Path, *options: str) -> Path:
    """Folder of the service in Kubernetes; the image is of the user's own making."""
    base = folder / "base"
    base.mkdir()
    (base / "Dockerfile").write_text("FROM scratch\n")
    with contextlib.chdir(folder):
        result = run("export", TARGET, "--to", "kubernetes", *options, "-o", "base")
    assert result.exit_code == 0, result.stderr
    return base


def documents(folder: Path) -> list[str]:
    words = []
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
        words += [f"--{name.partition('.')[0]}", str(folder / name)]
    return words


def until(what: Callable[[], Any], within_s: float = 90.0) -> Any:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.3)
    raise AssertionError(what)


@pytest.mark.parametrize("options", [(), ("--autoscale",), ("--gateways", "3", "--otlp", "http://c:4318")])
def test_the_server_accepts_every_object(
    kubernetes: Kubernetes, tmp_path: Path, options: tuple[str, ...]
) -> None:
    base = exported(tmp_path, *options)
    told = kubernetes.kubectl("apply", "-k", str(base), "--dry-run=server", "--validate=strict")
    lines = told.splitlines()
    assert all(line.endswith("(server dry run)") for line in lines), told
    kinds = {line.split("/")[0].split(".")[0] for line in lines}
    assert {"configmap", "service", "deployment", "poddisruptionbudget", "networkpolicy"} <= kinds


def test_the_account_of_the_upkeep_cannot_set_an_image(kubernetes: Kubernetes, tmp_path: Path) -> None:
    base = exported(tmp_path, "--upkeep", "--namespace", "limited", *documents(tmp_path))
    kubernetes.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "limited"}})
    kubernetes.kubectl("apply", "-k", str(base), "--validate=strict")
    path = "/api/v1/namespaces/limited/pods"
    pod = until(lambda: kubernetes.items(f"{path}?labelSelector=app.kubernetes.io/component=work"))[0]
    user = "system:serviceaccount:limited:single-upkeep"
    path += f"/{pod['metadata']['name']}"
    image = {"spec": {"containers": [{**pod["spec"]["containers"][0], "image": "other:1"}]}}
    until(lambda: refused_by_policy(kubernetes, path, image, user))
    for changed in (noting(1.5), giving_up(), placing("quick", "node-0")):
        assert kubernetes.ask("PATCH", path, changed, MERGE, user) is not None


def refused_by_policy(kubernetes: Kubernetes, path: str, patch: dict[str, Any], user: str) -> bool:
    """Whether the server denies a dry run of a patch; a new policy takes effect within seconds."""
    try:
        kubernetes.ask("PATCH", f"{path}?dryRun=All", patch, MERGE, user)
    except AssertionError as error:
        return "images must stay" in str(error)
    return False


class Load:
    """Requests to the gateways in turn, one after another from a few threads."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._stop = threading.Event()
        self.answers: list[tuple[int, bytes]] = []
        self._threads = [threading.Thread(target=self._send, args=(place,)) for place in range(2)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[tuple[int, bytes]]:
        """Requests that failed."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return [answer for answer in self.answers if answer[0] != 200]

    def _send(self, place: int) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(ask(self._urls[place % len(self._urls)], "/v1/request", "hi"))
            except OSError as error:
                self.answers.append((0, repr(error).encode()))
            time.sleep(0.02)


def pods(kubernetes: Kubernetes, component: str) -> list[dict[str, Any]]:
    """Pods that are ready and stay."""
    return [
        pod
        for pod in kubernetes.items(PODS.format(component))
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    ]


def nodes_of(kubernetes: Kubernetes) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in pods(kubernetes, "work"))


@contextlib.contextmanager
def upkeep(kubernetes: Kubernetes, folder: Path, url: str) -> Iterator[Path]:
    """An upkeep with the rights of its account; yields its log."""
    account = folder / "account.token"
    account.write_text(kubernetes.kubectl("create", "token", "single-upkeep"))
    words = ["upkeep", TARGET, "--kubernetes", "--nodes-from-cluster", *documents(folder)]
    words += ["--url", url, "--api", kubernetes.url, "--api-token-file", str(account)]
    words += ["--api-ca", str(kubernetes.certificate)]
    log = folder / "upkeep.log"
    with log.open("w") as out:
        process = subprocess.Popen([*KWIKEN, *words], cwd=ROOT, stderr=out)
        try:
            yield log
            assert process.poll() is None, log.read_text()
            process.terminate()
            assert process.wait(timeout=30) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def test_an_upkeep_sets_scales_and_moves_pods_and_nothing_is_lost(
    kubernetes: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWIKEN_TOKEN", TOKEN)
    base = exported(tmp_path, "--gateways", "2", "--upkeep", *documents(tmp_path))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "plan.json").write_text("null")
    with name_server() as names, Kubelet(kubernetes, names, mounted) as kubelet:
        kubernetes.kubectl("create", "secret", "generic", "single-token", f"--from-literal=token={TOKEN}")
        kubernetes.kubectl("apply", "-k", str(base))
        gateways = until(lambda: (found := pods(kubernetes, "gateway")) and len(found) == 2 and found)
        urls = [f"http://{pod['status']['podIP']}:8080" for pod in gateways]
        assert not pods(kubernetes, "work")  # they wait at the gate
        with upkeep(kubernetes, tmp_path, urls[0]) as log:
            try:
                until(lambda: all(ask(url, "/v1/request", "hi")[0] == 200 for url in urls))
                first = nodes_of(kubernetes)
                load = Load(urls)
                load.start()
                # The p99 is missed, so there are more of them, each on a node of its own.
                more = until(lambda: (found := nodes_of(kubernetes)) and len(found) > len(first) and found)
                assert len(set(more)) == len(more)
                # A pod is evicted: what replaces it stands on the same node.
                evicted = pods(kubernetes, "work")[0]
                kubernetes.ask("DELETE", f"/api/v1/namespaces/default/pods/{evicted['metadata']['name']}")
                until(lambda: evicted["spec"]["nodeName"] in nodes_of(kubernetes))
                # A node is lost: what stood there goes elsewhere.
                kubernetes.set_ready(more[0], "False")
                until(lambda: (found := nodes_of(kubernetes)) and more[0] not in found and found)
                kubernetes.set_ready(more[0], "True")
                # A rolling restart.
                before = {pod["metadata"]["uid"] for pod in pods(kubernetes, "work")}
                kubernetes.ask("PATCH", DEPLOYMENT, _restarted(), MERGE)
                until(
                    lambda: (
                        (now := {pod["metadata"]["uid"] for pod in pods(kubernetes, "work")})
                        and not now & before
                    ),
                    180.0,
                )
                failed = load.stop()
            finally:
                assert kubelet.error is None, kubelet.error
            assert not failed, (len(failed), len(load.answers), failed[:3])
        told = log.read_text()
        assert "p99" in told  # the reason
        assert "replaces" in told
        assert json.loads(kubernetes.kubectl("get", "deploy", "single-work", "-o", "json"))["spec"][
            "replicas"
        ]
        kubernetes.kubectl("delete", "-k", str(base), "--wait=false")


def test_pods_of_a_node_that_is_taken_away_run_again_where_an_autoscaler_brings_another(
    kubernetes: Kubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWIKEN_TOKEN", TOKEN)
    base = exported(tmp_path, "--upkeep", *documents(tmp_path))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "plan.json").write_text("null")
    for node in kubernetes.items("/api/v1/nodes")[1:]:
        kubernetes.ask("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
    [only] = [node["metadata"]["name"] for node in kubernetes.items("/api/v1/nodes")]
    until(lambda: not pods(kubernetes, "gateway"))  # of another test
    with name_server() as names, Kubelet(kubernetes, names, mounted) as kubelet:
        kubernetes.kubectl("apply", "-k", str(base))
        [gateway] = until(lambda: pods(kubernetes, "gateway"))
        url = f"http://{gateway['status']['podIP']}:8080"
        with upkeep(kubernetes, tmp_path, url) as log:
            try:
                until(lambda: ask(url, "/v1/request", "hi")[0] == 200)
                assert set(nodes_of(kubernetes)) == {only}
                kubernetes.ask("DELETE", f"/api/v1/nodes/{only}")
                # What a node autoscaler sees: pods without a gate that no node takes, and that it may serve.
                waiting = until(lambda: unschedulable(kubernetes), 180.0)
                assert not any(refused_by_karpenter(pod["spec"]) for pod in waiting)
                assert "hostname" not in json.dumps([pod["spec"].get("affinity") for pod in waiting])
                kubernetes.add_node("came-later", "quick")
                until(lambda: set(nodes_of(kubernetes)) == {"came-later"}, 180.0)
                until(lambda: ask(url, "/v1/request", "hi")[0] == 200)
            finally:
                assert kubelet.error is None, kubelet.error
        assert "other nodes joined" in log.read_text()
        kubernetes.kubectl("delete", "-k", str(base), "--wait=false")


def unschedulable(kubernetes: Kubernetes) -> list[dict[str, Any]]:
    """Pods of the stage for which the scheduler has no node."""
    return [
        pod
        for pod in kubernetes.items(PODS.format("work"))
        if any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions", ()))
        and not pod["spec"].get("schedulingGates")
        and not pod["spec"].get("nodeName")
    ]


def _restarted() -> dict[str, Any]:
    noted = {"kubectl.kubernetes.io/restartedAt": str(time.time())}
    return {"spec": {"template": {"metadata": {"annotations": noted}}, "minReadySeconds": 7}}

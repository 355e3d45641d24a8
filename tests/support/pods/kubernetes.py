"""A real API server of Kubernetes with its controllers and scheduler, and processes of this machine as pods."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.support.pods.name_server import NameServer, running_alone
from tests.support.runtime.server_processes import free_port, running

TOKEN = "of-the-test"
STARTED_S = 90.0
GRACE_S = 30.0
POLL_S = 0.2
PODS = "10.199.8"  # addresses of pods; a slice of endpoints takes none of loopback
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "endpointslice-controller",
    "serviceaccount-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
)


def programs() -> Path | None:
    """Folder of kube-apiserver, kube-controller-manager and kube-scheduler, by `KUBERNETES_BIN`."""
    folder = Path(os.environ.get("KUBERNETES_BIN", "/nowhere"))
    wanted = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    there = all((folder / name).exists() for name in wanted)
    return folder if there and shutil.which("etcd") and shutil.which("kubectl") else None


class Kubernetes(NamedTuple):
    """A running API server.

    Attributes:
        url: its address.
        folder: folder with `kubeconfig` and the server's certificate.
    """

    url: str
    folder: Path

    @property
    def certificate(self) -> Path:
        """Certificate by which the server is known."""
        return self.folder / "certs" / "apiserver.crt"

    def kubectl(self, *words: str) -> str:
        """Standard output of a command that succeeds."""
        command = ["kubectl", f"--kubeconfig={self.folder / 'kubeconfig'}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", user: str = ""
    ) -> Any:
        """Answer of the API to its administrator, or to another user; None for an object that is not there."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
            | ({"Impersonate-User": user} if user else {}),
        )
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        try:
            with urllib.request.urlopen(request, timeout=30, context=trusted) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            if error.code in {404, 409}:
                return None
            raise AssertionError((method, path, error.code, text)) from error

    def items(self, path: str) -> list[dict[str, Any]]:
        """Objects of a list."""
        found: list[dict[str, Any]] = self.ask("GET", path)["items"]
        return found

    def add_node(self, name: str, node_class: str, *, cores: int = 4) -> None:
        """A node that is ready, without a kubelet."""
        amounts = {"cpu": str(cores), "memory": "8Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": node_class}
        self.ask(
            "POST",
            "/api/v1/nodes",
            {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts}},
        )
        self.set_ready(name, "True", amounts)
        self.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")

    def set_ready(self, name: str, ready: str, amounts: dict[str, str] | None = None) -> None:
        """Say whether a node is ready, as its kubelet would."""
        status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": ready, "reason": "Test"}]}
        if amounts is not None:
            status |= {"capacity": amounts, "allocatable": amounts}
        self.ask(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            {"status": status},
            "application/strategic-merge-patch+json",
        )


@contextlib.contextmanager
def running_kubernetes(folder: Path, binaries: Path) -> Iterator[Kubernetes]:
    """A server, its controllers and its scheduler; ended at the end."""
    etcd, peer, port = free_port(), free_port(), free_port()
    key = folder / "account.key"
    subprocess.run(
        ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=60
    )
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    found = Kubernetes(f"https://127.0.0.1:{port}", folder)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "clusters": [{"name": "test", "cluster": {"server": found.url, "insecure-skip-tls-verify": True}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    commands = {
        "etcd": [
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        ],
        "kube-apiserver": [
            str(binaries / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'certs'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--service-account-issuer=https://test",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
        ],
        "kube-controller-manager": [
            str(binaries / "kube-controller-manager"),
            f"--kubeconfig={folder / 'kubeconfig'}",
            f"--service-account-private-key-file={key}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--leader-elect=false",
            "--secure-port=0",
        ],
        "kube-scheduler": [
            str(binaries / "kube-scheduler"),
            f"--kubeconfig={folder / 'kubeconfig'}",
            "--leader-elect=false",
            "--secure-port=0",
        ],
    }
    with contextlib.ExitStack() as stack:
        route = ["local", f"{PODS}.0/24", "dev", "lo"]
        subprocess.run(["ip", "route", "replace", *route], check=True, timeout=30)
        stack.callback(subprocess.run, ["ip", "route", "del", *route], timeout=30, check=False)
        for name, command in commands.items():
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            if name == "kube-apiserver":
                _until_ready(found, process)
        yield found


def _until_ready(found: Kubernetes, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTED_S
    while time.monotonic() < until:
        assert process.poll() is None, (found.folder / "kube-apiserver.log").read_text()[-3000:]
        with contextlib.suppress(OSError, AssertionError):
            if found.certificate.exists() and found.ask("GET", "/api/v1/namespaces/default") is not None:
                return
        time.sleep(0.3)
    raise AssertionError((found.folder / "kube-apiserver.log").read_text()[-3000:])


class Kubelet:
    """Runs the pods of all nodes as processes, each at an address of its own, and tells names from slices.

    Args:
        folder: folder that is mounted as the gateways' plan; the processes get folders in it.
    """

    def __init__(self, kubernetes: Kubernetes, names: NameServer, folder: Path) -> None:
        self._kubernetes, self._names, self._folder = kubernetes, names, folder
        self._processes: dict[str, tuple[contextlib.ExitStack, subprocess.Popen[str]]] = {}
        self._ended: dict[str, float] = {}
        self._count = 0
        self._stop = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for stack, _process in self._processes.values():
            stack.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._step()
            except BaseException as error:  # noqa: BLE001 - shown by the test
                self.error = error
                return
            time.sleep(POLL_S)

    def _step(self) -> None:
        for pod in self._kubernetes.items("/api/v1/namespaces/default/pods"):
            uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                self._end(uid, name)
            elif pod["spec"].get("nodeName") and uid not in self._processes and uid not in self._ended:
                self._start(uid, name, pod)
        self._tell_names()

    def _start(self, uid: str, name: str, pod: dict[str, Any]) -> None:
        component = pod["metadata"]["labels"].get("app.kubernetes.io/component")
        self._count += 1
        address = f"{PODS}.{self._count}"
        if component not in {"jaeger", "upkeep"}:
            [container] = pod["spec"]["containers"]
            words = [
                f"--host={address}" if word == "--host=0.0.0.0" else word
                for word in container["args"]
                if not word.startswith("--otlp")
            ]
            words = [
                word.replace("/etc/kwiken/plan", str(self._folder)) if word.startswith("--plan") else word
                for word in words
            ]
            stack = contextlib.ExitStack()
            (self._folder / uid).mkdir()
            if component == "gateway":
                process = stack.enter_context(running_alone(self._folder / uid, *words))
            else:
                process = stack.enter_context(running(*words))
            assert process.stderr is not None
            said = list(itertools.takewhile(lambda line: " at http://" not in line, process.stderr))
            assert process.poll() is None, (name, said)
            self._processes[uid] = stack, process
        else:
            self._ended[uid] = 0.0  # no process
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ]
        self._kubernetes.ask(
            "PATCH",
            f"/api/v1/namespaces/default/pods/{name}/status",
            {
                "status": {
                    "phase": "Running",
                    "podIP": address,
                    "podIPs": [{"ip": address}],
                    "conditions": ready,
                }
            },
            "application/strategic-merge-patch+json",
        )

    def _end(self, uid: str, name: str) -> None:
        """End as a kubelet does: the process lingers while names are looked up again, then finishes."""
        if uid not in self._ended:
            self._ended[uid] = time.monotonic() + 6.5
        found = self._processes.get(uid)
        if found is not None:
            if time.monotonic() < self._ended[uid]:
                return
            stack, process = found
            process.terminate()
            assert process.wait(timeout=GRACE_S) == 0, name
            stack.close()
            del self._processes[uid]
        path = f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"
        self._kubernetes.ask("DELETE", path)

    def _tell_names(self) -> None:
        names: dict[str, list[str]] = {}
        for each in self._kubernetes.items("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"):
            service = each["metadata"]["labels"]["kubernetes.io/service-name"]
            for one in each.get("endpoints") or ():
                if (one.get("conditions") or {}).get("ready"):
                    names.setdefault(service, []).extend(one["addresses"])
        self._names.names = names

"""Programs between the client and the replicas: Envoy with its hedging, and kwiken's gateway."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import re
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.gateway.peers.messages import descriptors, path_of
from kwiken.base.errors import InputError

READY_S: Final = 60.0
STOP_S: Final = 20.0
RETRIES: Final = 2  # of a call by Envoy: a copy, and one more for a call that failed
TYPE: Final = "type.googleapis.com/envoy.extensions"
Addresses = Mapping[str, Sequence[str]]
"""Addresses of the replicas by stage, in the order in which a request calls the stages."""


def envoy_binary() -> str | None:
    """Path of Envoy's binary from its package; None where it is not installed."""
    spec = importlib.util.find_spec("envoy")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(place) / "_bin" / "envoy"
        if path.is_file():
            return str(path)
    return None


def bootstrap(addresses: Addresses, after_ms: Mapping[str, float]) -> dict[str, Any]:
    """Envoy's settings: a route and a cluster for each stage.

    A call without an answer after its delay gets a copy on another replica, and both go on
    (`hedge_on_per_try_timeout`); a call that fails is sent again. Calls go to the less busy one of two
    replicas, and a replica that fails is ejected, by Envoy's defaults.

    Args:
        after_ms: by stage: age of a call at which it gets a copy, milliseconds.
    """
    manager = {
        "@type": f"{TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "peers",
        "route_config": {
            "virtual_hosts": [
                {"name": "peers", "domains": ["*"], "routes": [_route(name, after_ms) for name in addresses]}
            ]
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPE}.filters.http.router.v3.Router"},
            }
        ],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    listener = {"name": "peers", "address": _place("127.0.0.1:0"), "filter_chains": [{"filters": filters}]}
    return {
        "admin": {"address": _place("127.0.0.1:0")},
        "static_resources": {
            "listeners": [listener],
            "clusters": [_cluster(name, addresses[name]) for name in addresses],
        },
    }


def _route(stage: str, after_ms: Mapping[str, float]) -> dict[str, Any]:
    previous = f"{TYPE}.retry.host.previous_hosts.v3.PreviousHostsPredicate"
    retries: dict[str, Any] = {
        "retry_on": "5xx",
        "num_retries": RETRIES,
        "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"},
        "retry_host_predicate": [
            {"name": "envoy.retry_host_predicates.previous_hosts", "typed_config": {"@type": previous}}
        ],
        "host_selection_retry_max_attempts": 5,
    }
    if stage in after_ms:
        retries["per_try_timeout"] = f"{max(1, round(after_ms[stage])) / 1000:.3f}s"
    route = {"cluster": stage, "retry_policy": retries, "hedge_policy": {"hedge_on_per_try_timeout": True}}
    return {"match": {"prefix": f"/{stage}"}, "route": route}


def _cluster(stage: str, addresses: Sequence[str]) -> dict[str, Any]:
    points = [{"endpoint": {"address": _place(each)}} for each in addresses]
    return {
        "name": stage,
        "type": "STATIC",
        "connect_timeout": "1s",
        "lb_policy": "LEAST_REQUEST",
        "outlier_detection": {},
        "load_assignment": {"cluster_name": stage, "endpoints": [{"lb_endpoints": points}]},
    }


def _place(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


@contextlib.asynccontextmanager
async def envoy(
    addresses: Addresses, after_ms: Mapping[str, float], folder: Path
) -> AsyncIterator[tuple[str, int]]:
    """Envoy for the duration of a block; yields its address and process id."""
    binary = envoy_binary()
    assert binary is not None
    settings, admin = folder / "envoy.yaml", folder / "envoy.admin"
    settings.write_text(yaml.safe_dump(bootstrap(addresses, after_ms)), encoding="utf-8")
    admin.unlink(missing_ok=True)
    words = ["-c", str(settings), "--admin-address-path", str(admin), "-l", "error"]
    process = await asyncio.create_subprocess_exec(
        *(binary, *words, "--concurrency", "1", "--disable-hot-restart"), cwd=folder
    )
    async with stopped(process):
        async with asyncio.timeout(READY_S):
            while not (url := await asyncio.to_thread(_listener, admin)):  # noqa: ASYNC110 - Envoy opens it
                await asyncio.sleep(0.05)
        yield url, process.pid


def _listener(admin: Path) -> str:
    """Address of Envoy's listener; empty while there is none.

    Args:
        admin: file that holds the address of Envoy's own pages once they are served.
    """
    if not admin.exists() or not (place := admin.read_text(encoding="ascii")):
        return ""
    with urllib.request.urlopen(f"http://{place}/listeners?format=json", timeout=5.0) as reply:
        found = json.load(reply).get("listener_statuses", [])
    if not found:
        return ""
    door = found[0]["local_address"]["socket_address"]
    return f"http://{door['address']}:{door['port_value']}"


@contextlib.asynccontextmanager
async def gateway(
    addresses: Addresses, plan: str, folder: Path, *, over_grpc: bool
) -> AsyncIterator[tuple[str, int]]:
    """Gateway of kwiken for the duration of a block; yields its address and process id.

    Args:
        plan: file with the plan in force.
        over_grpc: whether requests and calls go over gRPC instead of HTTP.
    """
    (folder / "peers.pb").write_bytes(descriptors())
    stages: list[dict[str, Any]] = []
    order = tuple(addresses)
    for place, stage in enumerate(order):
        before = order[place - 1] if place else "request"
        remote: dict[str, Any] = {"addresses": list(addresses[stage])}
        remote |= (
            {
                "kind": "grpc",
                "url": f"grpc://{stage}:1{path_of(stage)}",
                "message": {"id": f"{{{before}.id}}"},
                "descriptors": str(folder / "peers.pb"),
            }
            if over_grpc
            else {"kind": "http", "method": "GET", "url": f"http://{stage}:1/{stage}?id={{{before}.id}}"}
        )
        stages.append(
            {"name": stage, "idempotent": True, "remote": remote, "after": [before] if place else []}
        )
    service = folder / "peers.yaml"
    service.write_text(yaml.safe_dump({"version": 1, "service": "peers", "stages": stages}), encoding="utf-8")
    words = ["serve", str(service), "--port", "0", "--trace", "off", "--plan", plan]
    port = free_port()
    words += ["--grpc-port", str(port)] if over_grpc else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kwiken", *words), cwd=folder, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with stopped(process):
        told = ""
        async with asyncio.timeout(READY_S):
            while (match := re.search(r"http://\S+", told)) is None:
                line = await process.stderr.readline()
                if not line:
                    raise InputError(f"the gateway did not start: {told}", where="kwiken serve")
                told += line.decode()
        draining = asyncio.create_task(process.stderr.read())
        try:
            yield f"127.0.0.1:{port}" if over_grpc else match[0], process.pid
        finally:
            draining.cancel()


def free_port() -> int:
    """Port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def stopped(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """End a process at the end of a block."""
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()

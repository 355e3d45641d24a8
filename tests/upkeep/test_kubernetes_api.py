"""Client of Kubernetes' API: long lists, refusals, and its address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kwiken.base.errors import InputError, KwikenError
from kwiken.upkeep.kubernetes.api import ApiAddress, KubernetesApi


@contextlib.asynccontextmanager
async def api_of(handler: Any, folder: Path) -> AsyncIterator[KubernetesApi]:
    """A client of a server that answers as the handler says."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (folder / "token").write_text("t\n")
    try:
        address = ApiAddress(
            url=f"http://127.0.0.1:{runner.addresses[0][1]}", namespace="n", token_file=folder / "token"
        )
        async with KubernetesApi(address) as api:
            yield api
    finally:
        await runner.cleanup()


async def test_long_lists_are_read_page_by_page(tmp_path: Path) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        assert request.headers["Authorization"] == "Bearer t"
        assert request.path == "/api/v1/namespaces/n/pods"
        page = int(request.query.get("continue", "0"))
        more = {"continue": str(page + 1)} if page < 2 else {}
        return web.json_response({"items": [{"page": page, "text": "x" * 100_000}], "metadata": more})

    async with api_of(handler, tmp_path) as api:
        assert [one["page"] for one in await api.pods("a=b")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, b'{"message": "you may not"}', r"GET .*/scale: you may not"),
        (500, b"oh", r"answered 500 without JSON"),
        (200, b"[", r"answered 200 without JSON"),
        (200, b'{"kind": "\x80"}', r"answered 200 without JSON"),
        (200, b"[" * 100_000, r"answered 200 without JSON"),
    ],
)
async def test_refusals_are_told(tmp_path: Path, status: int, body: bytes, message: str) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(status=status, body=body)

    async with api_of(handler, tmp_path) as api:
        with pytest.raises(KwikenError, match=message):
            await api.scale("d")


def test_outside_of_a_pod_the_address_must_be_given() -> None:
    with pytest.raises(InputError, match="this process is in no pod of Kubernetes; give --api URL"):
        ApiAddress.within()

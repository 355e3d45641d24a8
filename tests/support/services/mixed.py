"""Test service of own stages and of foreign ones over HTTP and gRPC, whose ports the environment names."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service

HTTP_PORT, GRPC_PORT = "KWIKEN_TEST_HTTP_PORT", "KWIKEN_TEST_GRPC_PORT"


class Ask(msgspec.Struct):
    """Request, which is also what the foreign services are sent."""

    sku: str


service = Service("mixed")


@service.stage(idempotent=True)
async def begin(ask: Ask) -> Ask:
    """Pass the request on."""
    return ask


@service.stage(
    after=[begin],
    idempotent=True,
    timeout_ms=1000,
    remote=HttpCall(f"http://127.0.0.1:{os.environ.get(HTTP_PORT, '9')}/price", body="ask"),
)
async def price(ask: Ask) -> Any:
    """Ask a foreign service over HTTP."""
    raise NotImplementedError


@service.stage(
    after=[begin],
    idempotent=True,
    timeout_ms=1000,
    remote=GrpcCall(f"grpc://127.0.0.1:{os.environ.get(GRPC_PORT, '9')}/shop.Inventory/Get"),
)
async def stock(ask: Ask) -> Any:
    """Ask a foreign service over gRPC."""
    raise NotImplementedError


@service.stage(after=[price, stock], idempotent=True)
async def end(price: Any, stock: Any) -> dict[str, Any]:
    """Join both answers."""
    return {"price": price, "stock": stock}

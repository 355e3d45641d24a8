"""Shop in front of two foreign services: prices over HTTP and an inventory over gRPC, two replicas each."""

from __future__ import annotations

import msgspec

from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service


class Ask(msgspec.Struct):
    """Request: an article, and the currency of its price."""

    sku: str
    currency: str = "EUR"


class Price(msgspec.Struct):
    """Answer of the price service."""

    sku: str
    cents: int


class Stock(msgspec.Struct):
    """Answer of the inventory."""

    sku: str
    pieces: int


PRICES = HttpCall(
    "http://prices/prices/{request.sku}?currency={request.currency}",
    method="GET",
    health="/healthz",
    addresses=("127.0.0.1:7001", "127.0.0.1:7002"),
)
INVENTORY = GrpcCall(
    "grpc://inventory:50051/shop.Inventory/Get",
    message={"sku": "{request.sku}"},
    addresses=("127.0.0.1:7003", "127.0.0.1:7004"),
)

shop = Service("shop")


@shop.stage(remote=PRICES, idempotent=True, timeout_ms=2000)
async def price(ask: Ask) -> Price:
    """Types of the call; the price service runs it."""
    raise NotImplementedError


@shop.stage(remote=INVENTORY, idempotent=True, timeout_ms=2000)
async def stock(ask: Ask) -> Stock:
    """Types of the call; the inventory runs it."""
    raise NotImplementedError


@shop.stage(after=[price, stock])
async def offer(price: Price, stock: Stock) -> str:
    """What the customer reads."""
    return f"{stock.pieces} pieces of {price.sku}, {price.cents} cents each"

"""Shop of `examples/foreign` whose services' addresses come from the environment; for `bench_foreign`."""

from __future__ import annotations

import os

import msgspec

from kwiken.model.service.remote import GrpcCall, HttpCall
from kwiken.model.service.service import Service

PRICES = "FOREIGN_PRICES"  # variables with HOST:PORT of the replicas, separated by commas
INVENTORY = "FOREIGN_INVENTORY"


def addresses(variable: str) -> tuple[str, ...]:
    """Addresses in a variable of the environment; none where it is not set."""
    return tuple(each for each in os.environ.get(variable, "").split(",") if each)


class Ask(msgspec.Struct):
    """Request: an article."""

    sku: str


class Price(msgspec.Struct):
    """Answer of the price service."""

    sku: str
    cents: int


class Stock(msgspec.Struct):
    """Answer of the inventory."""

    sku: str
    pieces: int


shop = Service("shop")


@shop.stage(
    remote=HttpCall("http://prices/prices/{request.sku}", method="GET", addresses=addresses(PRICES)),
    idempotent=True,
)
async def price(ask: Ask) -> Price:
    """Types of the call; the price service runs it."""
    raise NotImplementedError


@shop.stage(
    remote=GrpcCall("grpc://inventory:50051/shop.Inventory/Get", addresses=addresses(INVENTORY)),
    idempotent=True,
)
async def stock(ask: Ask) -> Stock:
    """Types of the call; the inventory runs it."""
    raise NotImplementedError


@shop.stage(after=[price, stock])
async def offer(price: Price, stock: Stock) -> str:
    """What the customer reads."""
    return f"{stock.pieces} pieces of {price.sku}, {price.cents} cents each"

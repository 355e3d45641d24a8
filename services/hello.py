"""Minimal example service: three stages, one of them a fan-out.

Run it with `kwiken up services/hello.py:hello`. A stage is a coroutine function. Its arguments are the
answers of its parents in the order of `after`; the first stage takes the request. Arguments and answers are
typed, because they travel between processes.
"""

from __future__ import annotations

from msgspec import Struct

from kwiken import Partial, Service

hello = Service("hello")

GREETINGS = ("Hello", "Bonjour", "Hola", "Ciao")


class Visitor(Struct, frozen=True):
    """Request: the name of the person to greet."""

    name: str


@hello.stage(replicas=2, idempotent=True)
async def tidy(request: Visitor) -> Visitor:
    """Clean the name up: one call a request. An idempotent call may run twice, so it may be hedged."""
    return Visitor(" ".join(request.name.split())[:60].title() or "World")


@hello.stage(after=[tidy], fanout=len(GREETINGS), replicas=2, idempotent=True)
async def greet(visitor: Visitor, *, shard: int) -> str:
    """Greet in one language: one call a shard, all shards at the same time."""
    return f"{GREETINGS[shard]}, {visitor.name}!"


@hello.stage(after=[greet], replicas=2, idempotent=True)
async def join(greetings: Partial[str]) -> str:
    """Join the answers of all shards; the answer of a shard that was too late is missing."""
    return " ".join(greetings.present)


hello.check()

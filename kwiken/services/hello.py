"""The smallest service worth copying: three stages, one of them a fan-out.

Run it with `kwiken up kwiken.services.hello:hello`. A stage is a coroutine function. It takes its parents'
answers in the order of `after`; the first one takes the request. What it takes and gives is typed, because it
travels between processes.
"""

from __future__ import annotations

from msgspec import Struct

from kwiken.service import Partial, Service

hello = Service("hello")

GREETINGS = ("Hello", "Bonjour", "Hola", "Ciao")


class Visitor(Struct, frozen=True):
    """Who asks."""

    name: str


@hello.stage(replicas=2, idempotent=True)
async def tidy(request: Visitor) -> Visitor:
    """One call a request. `idempotent`: it may run twice, so it may be sent again when it is slow."""
    return Visitor(" ".join(request.name.split())[:60].title() or "World")


@hello.stage(after=[tidy], fanout=len(GREETINGS), replicas=2, idempotent=True)
async def greet(visitor: Visitor, *, shard: int) -> str:
    """One call a shard, all at the same time."""
    return f"{GREETINGS[shard]}, {visitor.name}!"


@hello.stage(after=[greet], replicas=2, idempotent=True)
async def join(greetings: Partial[str]) -> str:
    """The stage after a fan-out gets all shards' answers at once; one that came too late is None there."""
    return " ".join(greetings.present)


hello.check()

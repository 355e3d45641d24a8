"""Connection that parses its peer's bytes by turns: what one turn of the event loop parses is bounded.

A read brings up to 256 KiB, and a byte can cost a thousand times what another one costs. So parsers count
their work, all connections of a loop share the work of a turn, and what is left waits for the next turns.
Meanwhile the connection reads no more of its peer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

TURN_WORK: Final = 2000  # items that all connections of a loop parse in one turn: about 4 ms
SHARE: Final = 250  # items that one connection parses before the next one has its share
LONG_BODY: Final = 64 << 10  # bytes that take a decoder a millisecond or so
BYTES_PER_DECODED_ITEM: Final = 128  # bytes that take a decoder about as long as an item takes to be parsed
BYTES_PER_ITEM: Final = 4096  # bytes that take about as long to copy as an item takes to be parsed


T = TypeVar("T")


class LoopTurn:
    """Work that is left for the current turn of an event loop, shared by its connections.

    Attributes:
        left: number of items that may still be parsed in this turn; a share that was begun is ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._next: asyncio.Handle | None = None
        self.left = TURN_WORK

    def spend(self, work: int) -> None:
        """Count items that were parsed. Little work needs no turn of its own to be forgotten."""
        self.left -= work
        if self._next is None and self.left < TURN_WORK // 2:
            self._next = self._call_soon(self._begin)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call a function in one of the next turns, behind those that wait already."""
        self._waiting.append(go_on)
        if self._next is None:
            self._next = self._call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn: connections that waited have the first shares, one each in order."""
        self._next = None
        self.left = TURN_WORK
        waiting = self._waiting
        while waiting and self.left > 0:
            waiting.popleft()()
        if waiting and self._next is None:
            self._next = self._call_soon(self._begin)


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurn] = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> LoopTurn:
    """Turn of an event loop, which all its connections share."""
    turn = _TURNS.get(loop)
    if turn is None:
        turn = _TURNS[loop] = LoopTurn(loop)
    return turn


async def in_turns(shares: Generator[None, None, T], step: int = SHARE) -> T:
    """Do work on bytes of a peer in turns with all connections.

    Args:
        step: number of items that a step takes as long as.

    Returns:
        Value that the generator returns.
    """
    work = _SharedWork(shares, step)
    work.turn.wait(work.go_on)
    return await work.done


async def own_turn(size: int) -> None:
    """Wait for a turn that has room to decode a body of so many bytes; a short one need not wait."""
    if size > LONG_BODY:
        await in_turns((None for _ in ()), min(TURN_WORK, size // BYTES_PER_DECODED_ITEM))


class _SharedWork(Generic[T]):
    """Work in turns. A function that waits for its own turn would keep the bytes in a reference cycle."""

    def __init__(self, shares: Generator[None, None, T], step: int) -> None:
        loop = asyncio.get_running_loop()
        self._step = step
        self.turn = turn_of(loop)
        self.done: asyncio.Future[T] = loop.create_future()
        self._shares = shares

    def go_on(self) -> None:
        if self.done.done():  # cancelled
            return
        self.turn.spend(self._step)
        try:
            next(self._shares)
        except StopIteration as end:
            self.done.set_result(end.value)
        except Exception as error:  # noqa: BLE001 - it is raised where the work is awaited
            self.done.set_exception(error)
        else:
            self.turn.wait(self.go_on)


class PeerReader(asyncio.Protocol):
    """Connection to a peer whose bytes are parsed by `parse`, in turns.

    Attributes:
        has_more: whether the last `parse` stopped before the end of what had come.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._turn = turn_of(loop)
        self._late: deque[bytes] | None = None  # bytes that wait for their turn; None if none wait
        self._wanted = True
        self.has_more = False
        self._lost_by: Exception | None = None

    def parse(self, data: bytes, most: int) -> int:
        """Parse bytes of the peer, or go on with those before.

        Args:
            most: number of items after which to stop, and to set `has_more`; the parser keeps what is left.

        Returns:
            Number of items parsed.
        """
        raise NotImplementedError

    def ended(self, error: Exception | None) -> None:
        """The connection was lost, and all its bytes are parsed; `error` is the reason, if there is one."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = cast("asyncio.Transport", transport)

    def cut(self) -> None:
        """Close immediately; discard what was not sent, and what was not parsed."""
        self._late = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._late is not None:
            self._late.append(data)
            return
        on_time = self._turn.left > 0
        if on_time and not self._share(data):
            return
        if self._transport is not None:
            self._late = deque(() if on_time else (data,))
            self._set_reading()
            self._turn.wait(self.go_on)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop; what came before is parsed before the connection ends."""
        self._transport = None
        self._lost_by = exc
        if self._late is None:
            self.ended(exc)

    def go_on(self) -> None:
        """Take a further share; called by the turn for which the connection waits."""
        late = self._late
        if late is None:  # it was cut
            return
        if self._share(late.popleft() if late else b"") or late:
            self._turn.wait(self.go_on)
            return
        self._late = None
        if self._transport is None:
            self.ended(self._lost_by)
        else:
            self._set_reading()

    def read_on(self, *, wanted: bool) -> None:
        """Read more of the peer, or leave it unread."""
        self._wanted = wanted
        self._set_reading()

    def _share(self, data: bytes) -> bool:
        """Parse one share; returns whether there is more to parse."""
        self.has_more = False
        work = self.parse(data, SHARE)
        self._turn.spend(1 + work + len(data) // BYTES_PER_ITEM)
        return self.has_more

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._wanted and self._late is None:
            transport.resume_reading()
        else:
            transport.pause_reading()

"""Items of a handler that streams in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, Self

from kwiken.runtime.wire.transport.base import ItemStream
from kwiken.runtime.wire.transport.handler_errors import is_own

_END: Final = object()


class LocalItems(ItemStream):
    """Answer of a generator, which runs in the task of whoever pulls.

    Args:
        generator: what the handler returned, not begun.
        fit: converts an item to its annotated type; raises for another one.
        failure: the error to raise for one of the handler's own.
        now: clock by which the handler's time is measured, seconds.
    """

    _closing: Final[set[asyncio.Task[None]]] = set()  # the loop holds tasks weakly

    def __init__(
        self,
        generator: AsyncGenerator[Any],
        fit: Callable[[Any], Any],
        failure: Callable[[BaseException], Exception],
        now: Callable[[], float],
    ) -> None:
        self._generator = generator
        self._fit = fit
        self._failure = failure
        self._now = now
        self._first: list[Any] = []
        self._ended = False
        self.busy_ms = 0.0

    async def begin(self) -> Self:
        """Wait for the first item, or the end."""
        self._first = await self._next()
        return self

    async def pull(self) -> list[Any]:
        """Run the handler to its next item; see `ItemStream`."""
        items, self._first = self._first, []
        return items or await self._next()

    async def _next(self) -> list[Any]:
        """Next item; none at the end."""
        if self._ended:
            return []
        began = self._now()
        try:
            item = await anext(self._generator, _END)
            self._ended = item is _END
            return [] if self._ended else [self._fit(item)]
        except BaseException as error:
            if not is_own(error):
                raise
            raise self._failure(error) from error
        finally:
            assert self.busy_ms is not None
            self.busy_ms += (self._now() - began) * 1e3

    def cancel(self) -> None:
        """Close the handler's generator, which has to run for that, in a task."""
        if not self._ended:
            self._ended = True
            task = asyncio.get_running_loop().create_task(self._generator.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the handler's generator."""
        if not self._ended:
            self._ended = True
            await self._generator.aclose()

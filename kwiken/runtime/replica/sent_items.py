"""Items that one call of a stage that streams sends to its gateway."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec

from kwiken.runtime.replica.stage_calls import StageCalls
from kwiken.runtime.replica.stage_runner import CpuMeter
from kwiken.runtime.wire.frames.messages import AnswerFrame, ItemFrame, StreamEnd
from kwiken.runtime.wire.frames.server import FrameServerLink

OK: Final = 200


class SentItems:
    """Sender of the items of one call.

    Args:
        calls: calls of the stage, of whose load the first item tells.
        number: number of the call.
        meter: processor time of the call.

    Attributes:
        first_at: moment of the first item, seconds of `time.monotonic`; 0 before.
    """

    __slots__ = ("_calls", "_link", "_meter", "_number", "first_at")

    def __init__(self, calls: StageCalls, link: FrameServerLink, number: int, meter: CpuMeter) -> None:
        self._calls = calls
        self._link = link
        self._number = number
        self._meter = meter
        self.first_at = 0.0

    async def send(self, item: bytes) -> None:
        """Send an item, and wait until the gateway has room for the next.

        Raises:
            CancelledError: the gateway has given the call up.
        """
        opening: AnswerFrame | None = None
        if not self.first_at:
            await asyncio.sleep(0)  # the meter counts a step of the call when the step ends
            self.first_at = time.monotonic()
            calls, busy_ms = self._calls, self._meter.ms
            opening = AnswerFrame(
                self._number, False, 0, b"", OK, "", busy_ms, calls.inflight, calls.latency_ms
            )
        await self._link.send_item(item, self._number, opening)

    def end(self, answer: AnswerFrame) -> AnswerFrame | ItemFrame:
        """Last frame of the call.

        Args:
            answer: end of the call, as of a stage that does not stream; it is the last frame if the call
                ended by an error before its first item.
        """
        end = StreamEnd(answer.busy_ms)
        if answer.status != OK:
            if not self.first_at:
                return answer
            error = msgspec.msgpack.decode(answer.data, type=dict[str, str])
            end = StreamEnd(answer.busy_ms, error["kind"], error["error"])
        answer.data = msgspec.msgpack.encode(end)
        return ItemFrame(answer.id, True, 0, answer.data) if self.first_at else answer

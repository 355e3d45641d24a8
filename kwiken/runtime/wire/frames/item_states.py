"""States of the items that one call sends and receives over a frame connection."""

from __future__ import annotations

from collections import deque

import msgspec

from kwiken.runtime.wire.frames.messages import MIN_PIECE, AnswerFrame, CallFrame, ItemFrame

Opening = CallFrame | AnswerFrame | ItemFrame


class Sending(msgspec.Struct):
    """Items of one call that wait to be sent.

    Attributes:
        items: items with the frames that begin them, in order; the first one may be begun.
        sent: bytes of the first item that were sent.
        credit: bytes of the call that may still be sent.
        window: most bytes of credit.
        item_cost: bytes of credit that an item uses beside its own.
        complete: whether the last item of the call is among them, or was sent.
    """

    items: deque[tuple[Opening, bytes]]
    sent: int
    credit: int
    window: int
    item_cost: int
    complete: bool

    @property
    def may_send(self) -> bool:
        """Whether there is something to send, and credit for it."""
        if not self.items:
            return False
        left = len(self.items[0][1]) - self.sent
        return self.credit >= min(left, MIN_PIECE) + (0 if self.sent else self.item_cost)


class Receiving(msgspec.Struct):
    """Item that arrives in pieces.

    Attributes:
        opening: frame that it began with; None between the items of a call.
        missing: bytes that have not come yet.
        credit: bytes of the call that the peer may still send.
        window: most bytes of credit.
        item_cost: bytes of credit that an item uses beside its own.
        untaken: used bytes of whole items that the owner has not taken yet.
    """

    opening: Opening | None
    pieces: list[bytes]
    missing: int
    credit: int
    window: int
    item_cost: int
    untaken: int = 0

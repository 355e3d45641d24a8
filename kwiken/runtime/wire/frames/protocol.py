"""State machines of a frame connection, one for each end: bytes and calls in, frames and bytes out; no I/O.

Both sides keep to four bounds, and a peer that does not is cut off: 1. open calls of a connection, 2. bytes
of a call that are on their way without credit, 3. length of a frame, 4. length of an item. What an end has to
send leaves in turns: short frames first, then one piece of each long item. No call waits for a long one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Protocol

import msgspec

from kwiken.runtime.wire.frames.item_states import Opening, Receiving, Sending
from kwiken.runtime.wire.frames.messages import (
    ITEM_COST,
    ITEM_WINDOW,
    MARK,
    MAX_CALLS,
    MAX_FRAME,
    MAX_ID,
    MAX_LINE,
    MIN_PIECE,
    PIECE,
    PREFIX,
    WINDOW,
    AnswerFrame,
    ByeFrame,
    CallFrame,
    CancelFrame,
    CreditFrame,
    EndedFrame,
    FrameError,
    ItemFrame,
    PieceFrame,
    ToClient,
    ToServer,
    offer,
    read_offer,
    read_response,
    response,
)

TURN: Final = 64 << 10  # bytes of long items that leave in one turn, about
IGNORED_PER_CALL: Final = 2 * WINDOW // MIN_PIECE + ITEM_WINDOW // ITEM_COST  # frames, once ended
MAX_IGNORED: Final = 8 * IGNORED_PER_CALL
UNCOUNTED: Final = 16 << 10  # bytes of an item that the budget does not count

_ENCODER: Final = msgspec.msgpack.Encoder()
_TO_SERVER: Final = msgspec.msgpack.Decoder(ToServer)
_TO_CLIENT: Final = msgspec.msgpack.Decoder(ToClient)


class Budget(Protocol):
    """Bytes that all connections of a server may hold together."""

    taken: int

    @property
    def left(self) -> int:
        """Number of bytes that may still be taken."""

    def give(self, count: int) -> None:
        """Give back a number of bytes."""


class OversizeItem(msgspec.Struct):
    """Item that is not taken in; a call is to be answered with a refusal.

    Attributes:
        id: number of the call.
        size: length of the item, bytes.
        too_long: whether that is above the limit for one item; else the budget has no room.
    """

    id: int
    size: int
    too_long: bool


class AnswerBegins(msgspec.Struct):
    """The first piece of a long item of an answer has come; `size` is the length of all of it, bytes."""

    id: int
    size: int


class FrameEnd:
    """What both ends of a connection have in common: frames in and out, long items, and credit.

    Attributes:
        parsed: number of frames that the last `receive` parsed.
        stopped: whether it stopped at its limit; then frames may wait that have come whole.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[Any], max_body: int) -> None:
        self._decoder = decoder
        self._max_body = max_body
        self._out = bytearray()
        self._unread = bytearray()
        self._needed = 1  # bytes of `_unread` from which on there may be something to read
        self._version: int | None = None
        self._sending: dict[int, Sending] = {}
        self._turns: dict[int, Sending] = {}  # those that may send, in the order of their turns
        self._receiving: dict[int, Receiving] = {}
        self._last_id = 0
        self._spare = MAX_IGNORED
        self.parsed = 0
        self.stopped = False

    @property
    def ready(self) -> bool:
        """Whether both sides have said their first line."""
        return self._version is not None

    @property
    def has_more(self) -> bool:
        """Whether `take` has something to send now."""
        return bool(self._out or self._turns)

    @property
    def awaits_peer(self) -> bool:
        """Whether the peer has begun something that it has not ended: a frame, an item, or the first line."""
        return bool(self._unread or self._receiving or self._version is None)

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""
        waiting = sum(sum(len(item) for _, item in each.items) - each.sent for each in self._sending.values())
        return len(self._out) + waiting

    def take(self) -> bytearray:
        """Bytes to send now: all short frames, then one piece of each long item, up to about `TURN` bytes."""
        if self._turns:
            for number, sending in list(self._turns.items()):
                if len(self._out) >= TURN:
                    break
                self._step(number, sending)
        out, self._out = self._out, bytearray()
        return out

    def receive(self, data: bytes, most: int = MAX_CALLS) -> list[Any]:
        """Read bytes of the peer; returns the frames that concern the owner, with whole items.

        Args:
            most: number of frames to parse; further ones wait for the next time.

        Raises:
            FrameError: the peer broke the protocol.
        """
        unread = self._unread
        self.parsed, self.stopped = 0, False
        if unread:
            unread += data
            if len(unread) < self._needed:
                return []
            data, self._unread = bytes(unread), bytearray()
        start = 0 if self._version is not None else self._read_line(data)
        size = len(data)
        found: list[Any] = []
        needed = PREFIX
        parsed = 0
        while parsed < most and start >= 0 and size - start >= PREFIX:
            begin = start + PREFIX
            end = begin + int.from_bytes(data[start:begin], "big")
            if end - begin > MAX_FRAME:
                raise FrameError(f"a frame of {end - begin} bytes; at most {MAX_FRAME} are sent")
            if end > size:
                needed = end - start
                break
            try:
                frame = self._decoder.decode(data[begin:end])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise FrameError(f"not a frame: {error}") from error
            event = self._read(frame)
            if event is not None:
                found.append(event)
            start = end
            parsed += 1
        self.parsed, self.stopped = parsed, parsed >= most
        if start < 0:  # the first line has not come whole
            self._unread, self._needed = bytearray(data), len(data) + 1
        elif start < size:
            self._unread, self._needed = bytearray(data[start:]), needed
        return found

    def _read_line(self, data: bytes) -> int:
        """Read the first line; returns the place behind it, -1 if it has not come whole."""
        end = data.find(b"\n", 0, MAX_LINE) + 1
        if end:
            self._version = self._agree(data[:end])
            return end
        if len(data) >= MAX_LINE or not MARK.startswith(data[: len(MARK)]):
            raise FrameError(f"not a first line of frames: {data[:40]!r}")
        return -1

    def _agree(self, line: bytes) -> int:
        raise NotImplementedError

    def _read(self, frame: Any) -> Any:
        """Take in one frame; returns what concerns the owner. Frames of calls that ended are ignored."""
        whole: Opening | None = None
        if isinstance(frame, PieceFrame):
            whole = self._continue(frame)
        elif isinstance(frame, CreditFrame):
            self._credited(frame)
        elif frame.id not in self._receiving:
            self._ignore(frame.id)
        elif not self._holds(frame.id, frame.size):
            self._receiving.pop(frame.id, None)
            return OversizeItem(frame.id, frame.size, too_long=frame.size > self._max_body)
        elif self._begin(frame):
            whole = frame
        return None if whole is None else self._whole(whole)

    def _holds(self, number: int, size: int) -> bool:
        """Take room for an item of a call; returns whether there is room."""
        raise NotImplementedError

    def _whole(self, frame: Opening) -> Opening:
        """Note that an item is whole."""
        return frame

    def _put(self, frame: Any) -> None:
        """Append a frame to what leaves next."""
        out = self._out
        start = len(out)
        out += b"\0\0\0\0"
        _ENCODER.encode_into(frame, out, start + PREFIX)
        out[start : start + PREFIX] = (len(out) - start - PREFIX).to_bytes(PREFIX, "big")

    def _send(self, frame: Opening, item: bytes) -> None:
        """Send an item; `frame` begins it."""
        number = frame.id
        sending = self._sending.get(number)
        if sending is None:
            if len(item) <= PIECE and frame.last:  # most calls: no account of credit is needed
                frame.data = item
                self._put(frame)
                return
            window, item_cost = (WINDOW, 0) if frame.last else (ITEM_WINDOW, ITEM_COST)
            sending = self._sending[number] = Sending(deque(), 0, window, window, item_cost, complete=False)
        sending.complete = frame.last
        cost = sending.item_cost + len(item)
        if not sending.items and len(item) <= PIECE and cost <= sending.credit:  # most items of streams
            frame.data = item
            self._put(frame)
            sending.credit -= cost
            if frame.last:
                del self._sending[number]
            return
        sending.items.append((frame, item))
        if len(sending.items) == 1 and sending.may_send:
            self._step(number, sending)

    def _step(self, number: int, sending: Sending) -> None:
        """Send one piece of a call, whose next turn comes after those of all others."""
        opening, item = sending.items[0]
        if not sending.sent:
            sending.credit -= sending.item_cost
        count = min(PIECE, sending.credit, len(item) - sending.sent)
        end = sending.sent + count
        if sending.sent:
            self._put(PieceFrame(number, item[sending.sent : end]))
        else:
            opening.data = item[:count]
            self._put(opening)
        sending.sent = end
        sending.credit -= count
        if end == len(item):
            sending.items.popleft()
            sending.sent = 0
        self._turns.pop(number, None)
        if sending.may_send:
            self._turns[number] = sending
        elif sending.complete and not sending.items:
            del self._sending[number]

    def _drop(self, number: int) -> None:
        """Forget what a call has to send and to receive."""
        self._sending.pop(number, None)
        self._turns.pop(number, None)
        self._receiving.pop(number, None)

    def _credited(self, frame: CreditFrame) -> None:
        sending = self._sending.get(frame.id)
        if sending is None:
            self._ignore(frame.id)  # else its last piece was sent, or it ended
            return
        sending.credit += frame.count
        if not 0 < frame.count <= sending.window or sending.credit > sending.window:
            raise FrameError(f"a credit of {frame.count} bytes, more than was used")
        if sending.may_send:
            self._turns.setdefault(frame.id, sending)

    def _ignore(self, number: int) -> None:
        """Ignore a frame of a call that has ended here while the frame was on its way."""
        if not 0 < number <= self._last_id:
            raise FrameError(f"a frame of call {number}, which does not exist")
        self._spare -= 1
        if self._spare < 0:
            raise FrameError("too many frames of calls that have ended")

    def _note_call(self) -> None:
        """Allow for the frames that may be on their way when one more call ends."""
        self._spare = min(MAX_IGNORED, self._spare + IGNORED_PER_CALL)

    def _begin(self, frame: Opening) -> bool:
        """Take in the frame that begins an item; returns whether the item is whole."""
        got = len(frame.data)
        if not got <= frame.size or got > PIECE or (got < MIN_PIECE and got < frame.size):
            raise FrameError(f"{got} bytes begin an item of {frame.size}")
        receiving = self._receiving.get(frame.id)
        if receiving is None:
            if frame.last and got == frame.size:
                return True
            window, item_cost = (WINDOW, 0) if frame.last else (ITEM_WINDOW, ITEM_COST)
            receiving = self._receiving[frame.id] = Receiving(None, [], 0, window, window, item_cost)
        elif receiving.opening is not None:
            raise FrameError("an item begins within another one")
        receiving.opening = frame
        receiving.pieces = [frame.data]
        receiving.missing = frame.size - got
        self._charge(frame.id, receiving, got + receiving.item_cost)
        return self._is_whole(frame.id, receiving)

    def _continue(self, frame: PieceFrame) -> Opening | None:
        """Take in a piece; returns the frame of its item if it is whole."""
        receiving = self._receiving.get(frame.id)
        if receiving is None:
            self._ignore(frame.id)
            return None  # the call ended here while the piece was on its way
        got = len(frame.data)
        if receiving.opening is None or not 0 < got <= min(receiving.missing, PIECE):
            raise FrameError(f"a piece of {got} bytes where {receiving.missing} are missing")
        if got < MIN_PIECE and got < receiving.missing:
            raise FrameError(f"a piece of {got} bytes")
        receiving.pieces.append(frame.data)
        receiving.missing -= got
        self._charge(frame.id, receiving, got)
        opening = receiving.opening
        return opening if self._is_whole(frame.id, receiving) else None

    def _charge(self, number: int, receiving: Receiving, count: int) -> None:
        receiving.credit -= count
        if receiving.credit < 0:
            raise FrameError("bytes without credit")
        if receiving.missing:
            self._grant(number, receiving)  # else a long item would never be whole
        else:
            receiving.untaken += count

    def _grant(self, number: int, receiving: Receiving) -> None:
        """Grant what was used anew, if that is half of the window; but for items that were not taken."""
        used = receiving.window - receiving.credit - receiving.untaken
        if used >= receiving.window // 2:
            receiving.credit += used
            self._put(CreditFrame(number, used))

    def taken(self, number: int) -> None:
        """Note that the owner has taken all whole items of a call, so that further ones may come."""
        receiving = self._receiving.get(number)
        if receiving is not None:
            receiving.untaken = 0
            self._grant(number, receiving)

    def is_blocked(self, number: int) -> bool:
        """Whether items of a call wait for credit."""
        sending = self._sending.get(number)
        return sending is not None and bool(sending.items)

    def _is_whole(self, number: int, receiving: Receiving) -> bool:
        if receiving.missing:
            return False
        opening = receiving.opening
        assert opening is not None
        opening.data = b"".join(receiving.pieces)
        receiving.opening = None
        receiving.pieces = []
        if opening.last:
            del self._receiving[number]
        return True


class ServerEnd(FrameEnd):
    """Replica's end of a connection.

    Args:
        max_body: longest item of a call, bytes.
        budget: budget of the bytes that all connections hold, of calls and of answers.
    """

    def __init__(self, max_body: int, budget: Budget) -> None:
        super().__init__(_TO_SERVER, max_body)
        self._budget = budget
        self._open: dict[int, int] = {}  # bytes that each call without a last answer holds of the budget

    @property
    def open(self) -> int:
        """Number of calls that are not answered."""
        return len(self._open)

    def answer(self, frame: AnswerFrame, item: bytes) -> None:
        """Answer a call, ignored if it has ended; `frame.last` says whether no items follow by `item`."""
        charge = self._open.pop(frame.id, None)
        if charge is None:
            return
        if not frame.last:
            self._open[frame.id] = charge
        elif charge:
            self._budget.give(charge)
        if self._receiving:
            self._receiving.pop(frame.id, None)
        frame.size = len(item)
        self._send(frame, item)

    def item(self, number: int, item: bytes, *, last: bool) -> None:
        """Send a further item of an answer. Ignored if the call has ended."""
        if number not in self._open:
            return
        if last:
            self._release(number)
        self._send(ItemFrame(number, last, len(item), b""), item)

    def has_begun(self, number: int) -> bool:
        """Whether items of a call's answer were sent, and others may follow."""
        return number in self._sending and number in self._open

    def ended(self, number: int, busy_ms: float) -> None:
        """Report the end of a call that was cancelled, or whose answer breaks off.

        Args:
            busy_ms: processor time that it had taken, milliseconds.
        """
        if number in self._open:
            self._release(number)
            self._drop(number)
            self._put(EndedFrame(number, busy_ms))

    def bye(self) -> None:
        """Tell the client to send further calls elsewhere."""
        if self.ready:
            self._put(ByeFrame())

    def close(self) -> None:
        """Give back everything that the connection holds."""
        for number in list(self._open):
            self._release(number)

    def _release(self, number: int) -> None:
        self._budget.give(self._open.pop(number))

    def _agree(self, line: bytes) -> int:
        version = read_offer(line)
        self._out += response(version)
        if version is None:
            raise FrameError("the client speaks no version of frames that this replica speaks")
        return version

    def _read(self, frame: Any) -> Any:
        if isinstance(frame, CallFrame):
            return self._call(frame)
        if isinstance(frame, CancelFrame):
            self._drop(frame.id)
            if frame.id in self._open:
                return frame
            self._ignore(frame.id)
            return None
        return super()._read(frame)

    def _call(self, frame: CallFrame) -> CallFrame | OversizeItem | None:
        number = frame.id
        if not self._last_id < number <= MAX_ID:
            raise FrameError(f"call {number} after call {self._last_id}")
        if len(self._open) >= MAX_CALLS:
            raise FrameError(f"more than {MAX_CALLS} calls at once")
        self._last_id = number
        self._note_call()
        self._open[number] = 0
        if not self._holds(number, frame.size):
            return OversizeItem(number, frame.size, too_long=frame.size > self._max_body)
        return frame if self._begin(frame) else None

    def _holds(self, number: int, size: int) -> bool:
        """Take the bytes of an item from the budget; returns whether it has room for them."""
        counted = max(0, size - UNCOUNTED)
        if size > self._max_body or counted > self._budget.left:
            return False
        if counted:
            self._budget.taken += counted
            self._open[number] += counted
        return True


class ClientEnd(FrameEnd):
    """Gateway's end of a connection.

    Args:
        max_body: longest item of an answer, bytes; the call of a longer one is cancelled.
    """

    def __init__(self, max_body: int) -> None:
        super().__init__(_TO_CLIENT, max_body)
        self._open: dict[int, bool] = {}  # whether the answer has begun, of each call without an end
        self._cancelled: set[int] = set()  # calls whose end at the replica is not known yet
        self._left = False
        self._out += offer()

    @property
    def open(self) -> int:
        """Number of calls that have not ended at the replica, as far as this side knows."""
        return len(self._open) + len(self._cancelled)

    def call(self, frame: CallFrame, item: bytes) -> int:
        """Begin a call; `frame.last` says whether no items follow by `item`. Returns its number."""
        self._last_id = frame.id = self._last_id + 1
        self._note_call()
        self._open[frame.id] = False
        frame.size = len(item)
        self._send(frame, item)
        return frame.id

    def item(self, number: int, item: bytes, *, last: bool) -> None:
        """Send a further item of a call. Ignored if it has ended."""
        if number in self._open:
            self._send(ItemFrame(number, last, len(item), b""), item)

    def cancel(self, number: int) -> None:
        """Give a call up; its end comes as an `EndedFrame` if its answer has not begun."""
        begun = self._open.pop(number, None)
        if begun is None:
            return
        self._drop(number)
        self._put(CancelFrame(number))
        if not begun:
            self._cancelled.add(number)

    def _agree(self, line: bytes) -> int:
        return read_response(line)

    def _read(self, frame: Any) -> Any:
        if type(frame) is ItemFrame and self._continues(frame):
            return frame
        if isinstance(frame, AnswerFrame):
            return self._answer(frame)
        if isinstance(frame, EndedFrame):
            return self._ended(frame)
        if not isinstance(frame, ByeFrame):
            event = super()._read(frame)
            receiving = self._receiving.get(frame.id) if event is None else None
            begins = receiving is not None and receiving.opening is frame
            return AnswerBegins(frame.id, frame.size) if begins else event
        if self._left:
            raise FrameError("a second farewell")
        self._left = True
        return frame

    def _continues(self, frame: ItemFrame) -> bool:
        """Take in a short whole item between others, as most are; False for one of any other kind."""
        receiving, size = self._receiving.get(frame.id), frame.size
        whole = not frame.last and size == len(frame.data) and size <= PIECE and size <= self._max_body
        if receiving is None or receiving.opening is not None or not whole:
            return False
        self._charge(frame.id, receiving, size + receiving.item_cost)
        return True

    def _holds(self, number: int, size: int) -> bool:
        if size > self._max_body:
            self.cancel(number)
        return size <= self._max_body

    def _answer(self, frame: AnswerFrame) -> Opening | EndedFrame | AnswerBegins | OversizeItem:
        number = frame.id
        if number in self._cancelled:
            self._cancelled.discard(number)
            return EndedFrame(number, frame.busy_ms)
        if self._open.get(number) is not False:
            raise FrameError(f"an answer to call {number}, which waits for none")
        self._open[number] = True
        if not self._holds(number, frame.size):
            return OversizeItem(number, frame.size, too_long=True)
        return self._whole(frame) if self._begin(frame) else AnswerBegins(number, frame.size)

    def _whole(self, frame: Opening) -> Opening:
        if frame.last:
            self._open.pop(frame.id, None)
            if self._sending:
                self._drop(frame.id)
        return frame

    def _ended(self, frame: EndedFrame) -> EndedFrame | None:
        number = frame.id
        if number in self._cancelled:
            self._cancelled.discard(number)
        elif self._open.pop(number, None) is None:
            self._ignore(number)  # it was given up when its answer had begun
            return None
        self._drop(number)
        return frame

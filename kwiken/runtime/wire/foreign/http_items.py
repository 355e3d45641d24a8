"""Items in the body of a foreign HTTP answer: server-sent events, lines of JSON, or pieces of text."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, NoReturn, Protocol, Self

import msgspec

from kwiken.base.printable import printable
from kwiken.model.service.remote import CHUNKS, EVENTS
from kwiken.runtime.base.errors import HandlerError, LostError, UnfitError
from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.foreign.http_streams import BodyStream
from kwiken.runtime.wire.transport.base import Call, ItemStream
from kwiken.runtime.wire.transport.json_work import excess_work

MAX_ITEM: Final = 4 << 20  # bytes of one event or line
PIECE: Final = 4096  # bytes that are split in one turn of the loop: 4,096 lines at most, about 2 ms
MAX_MESSAGE: Final = 300  # characters of an error that are quoted
_BYTE_ORDER_MARK: Final = codecs.BOM_UTF8


class BodyEntry(NamedTuple):
    """One event, line or piece of text.

    Attributes:
        name: name of the event; empty for one without, and for lines and text.
        data: JSON text, or text.
    """

    name: bytes
    data: bytes


class TooLongError(Exception):
    """An event or line has more than `MAX_ITEM` bytes."""


class Splitter(Protocol):
    """Splits a body into entries, however its bytes are cut; state machine without input or output."""

    @property
    def pending(self) -> int:
        """Bytes of the entry that has not ended."""

    def feed(self, data: bytes) -> Iterator[BodyEntry]:
        """Entries that end in these bytes of the body.

        Raises:
            TooLongError: an entry is too long.
            UnicodeDecodeError: text is not UTF-8.
        """

    def end(self) -> Iterator[BodyEntry]:
        """Entries that the end of the body ends; errors as of `feed`."""


class LineSplitter:
    """Splits lines, which end by LF, CR or both; see `Splitter`. Empty lines are no entries."""

    def __init__(self) -> None:
        self._line = bytearray()  # has come without its end
        self._after_cr = False
        self._is_first = True

    @property
    def pending(self) -> int:
        """Bytes of the line that has not ended."""
        return len(self._line)

    def feed(self, data: bytes) -> Iterator[BodyEntry]:
        """Lines that end here."""
        return (BodyEntry(b"", text) for line in self.lines(data) if (text := line.strip()))

    def end(self) -> Iterator[BodyEntry]:
        """The last line, if it has no end of its own."""
        return self.feed(b"\n")

    def lines(self, data: bytes) -> Iterator[bytes]:
        """Whole lines, empty ones too, without their ends.

        Raises:
            TooLongError: a line is too long.
        """
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            if self._line or len(line) == len(piece):
                self._line += line
                if len(self._line) > MAX_ITEM:
                    raise TooLongError
                if len(line) == len(piece):
                    return  # without its end, so it is the last one
                line = bytes(self._line)
                self._line.clear()
            if self._is_first:
                self._is_first = False
                line = line.removeprefix(_BYTE_ORDER_MARK)
            yield line


class EventSplitter:
    """Splits server-sent events by the rules of the HTML standard, section 9.2.6; see `Splitter`.

    Comments, ids and times to reconnect are passed over. An event that the end of the body ends counts, as
    servers forget the empty line behind their last one.
    """

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._name = b""
        self._data = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of the event that has not ended."""
        return len(self._data) + self._lines.pending

    def feed(self, data: bytes) -> Iterator[BodyEntry]:
        """Events that end here."""
        for line in self._lines.lines(data):
            if not line:
                if self._name or self._data:
                    yield BodyEntry(self._name, bytes(self._data[:-1]))
                self._name = b""
                self._data.clear()
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data += value.removeprefix(b" ") + b"\n"
                if len(self._data) > MAX_ITEM:
                    raise TooLongError
            elif field == b"event":
                self._name = value.removeprefix(b" ")

    def end(self) -> Iterator[BodyEntry]:
        """The last event, if no empty line has ended it."""
        yield from self.feed(b"\n")
        yield from self.feed(b"\n")


class TextSplitter:
    """Splits text at any place but within a character; see `Splitter`."""

    pending = 0

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes) -> Iterator[BodyEntry]:
        """Whole characters that have come."""
        return self._entries(data, final=False)

    def end(self) -> Iterator[BodyEntry]:
        """No more; the text must not end within a character."""
        return self._entries(b"", final=True)

    def _entries(self, data: bytes, *, final: bool) -> Iterator[BodyEntry]:
        if text := self._decoder.decode(data, final):
            yield BodyEntry(b"", text.encode())


def splitter_of(stream: str) -> Splitter:
    """Splitter of bodies, by the `stream` of their call."""
    if stream == CHUNKS:
        return TextSplitter()
    return EventSplitter() if stream == EVENTS else LineSplitter()


class _Failure(msgspec.Struct):
    """Error that a server reports in its stream, in whatever form it has."""

    error: Any = None


class ItemReader(msgspec.Struct, frozen=True):
    """How the entries of a stage's answers become items.

    Attributes:
        stage: name of the stage, for errors.
        stream: form of the body, as in `HttpCall`.
        end_mark: data or name of the event, or the line, that ends the stream; None for its end alone.
        decode: decoder of one item from JSON, in the type of the stage.
        has_error: whether items have a field `error` of their own.
    """

    stage: str
    stream: str
    end_mark: bytes | None
    decode: Callable[[bytes], Any]
    has_error: bool

    def ends(self, entry: BodyEntry) -> bool:
        """Whether an entry is the end mark."""
        return self.end_mark is not None and self.end_mark in entry

    def item(self, entry: BodyEntry, at: str) -> Any:
        """Item of an entry.

        Args:
            at: stage, replica and number of the item, for errors.

        Raises:
            UnfitError: the entry is not JSON, or not of the stage's type.
            HandlerError: the entry is an error that the server reports, or takes too long to decode.
        """
        data = entry.data
        if self.stream == CHUNKS:
            return data.decode()
        if (excess := excess_work(data)) is not None:
            raise HandlerError(self.stage, "ReplyTooLarge", f"{at}: {excess}")
        if entry.name == b"error":
            raise self._reported(data)
        if not self.has_error and b'"error"' in data and (reported := _reported(data)) is not None:
            raise self._reported(reported)
        try:
            return self.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            what = f"event {printable(entry.name[:40].decode(errors='replace'))}" if entry.name else "it"
            raise UnfitError(f"{at}: {what} does not fit: {error}") from error

    def _reported(self, data: bytes) -> HandlerError:
        text = " ".join(data[: 4 * MAX_MESSAGE].decode(errors="replace").split())
        return HandlerError(self.stage, "StreamError", printable(text[:MAX_MESSAGE]) or "it gave no reason")


def _reported(data: bytes) -> bytes | None:
    """Error that an object of JSON reports in its field `error`; None if it reports none."""
    try:
        error = msgspec.json.decode(data, type=_Failure).error
        return None if error is None else msgspec.json.encode(error)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class HttpItems(ItemStream):
    """Answer of a foreign HTTP service whose items are read as they come.

    Args:
        body: body of the response.
        call: call whose request the bytes are charged to.
        at: stage and replica, for errors.
    """

    def __init__(self, body: BodyStream, reader: ItemReader, call: Call, at: str) -> None:
        self._body = body
        self._reader = reader
        self._call = call
        self._at = at
        self._splitter = splitter_of(reader.stream)
        self._count = 0
        self._first: list[Any] = []
        self._failure: Exception | None = None  # of the next `pull`
        self._ended = False

    async def begin(self) -> Self:
        """Wait for the first items, or the end; cancelling this cancels the call."""
        self._first = await self._next()
        return self

    async def pull(self) -> list[Any]:
        """Wait for further items; see `ItemStream`."""
        if self._first:
            items, self._first = self._first, []
            return items
        self._release(len(self._body.unread) + self._splitter.pending)
        return await self._next()

    async def _next(self) -> list[Any]:
        """Further items; none at the end. An error comes after the items that came before it."""
        items: list[Any] = []
        if self._failure is not None:
            self._raise(self._taken_failure())
        try:
            while not (items or self._ended):
                self._add(await self._body.take(PIECE), items)
                if not items:  # comments, or a part of an item
                    self._release(len(self._body.unread) + self._splitter.pending)
        except Exception as error:  # noqa: BLE001 - raised now or by the next `pull`
            self.cancel()
            if not items:
                self._raise(error)
            self._failure = error
        except BaseException:
            self.cancel()
            raise
        return items

    def _add(self, data: bytes, items: list[Any]) -> None:
        """Add the items that end in bytes of the body; no bytes stand for its end."""
        reader = self._reader
        for entry in self._splitter.feed(data) if data else self._splitter.end():
            if reader.ends(entry):
                self._ended = True
                self._body.leave()
                return
            if entry.data:
                items.append(reader.item(entry, f"{self._at}: item {self._count + 1}"))
                self._count += 1
        if not data:
            self._ended = True
            if reader.end_mark is not None:
                mark = reader.end_mark.decode()
                raise BrokenReplyError(
                    f"it ended without its end mark {mark!r} (`end_mark` in `remote` states another, or None)"
                )

    def _taken_failure(self) -> Exception:
        failure, self._failure = self._failure, None
        assert failure is not None
        return failure

    def _raise(self, error: Exception) -> NoReturn:
        """Raise an error of the body in the runtime's terms."""
        number, stage = self._count + 1, self._reader.stage
        try:
            match error:
                case BrokenReplyError():
                    raise LostError(f"{self._at}: {error}, after {self._count} items") from error
                case TooLongError():
                    reason = f"{self._at}: item {number} has more than {MAX_ITEM} bytes"
                    raise HandlerError(stage, "ReplyTooLarge", reason) from error
                case UnicodeDecodeError():
                    raise UnfitError(f"{self._at}: item {number} is not UTF-8: {error.reason}") from error
                case _:
                    raise error
        finally:
            del error  # its traceback holds this frame

    def cancel(self) -> None:
        """Close the connection, if the answer has not ended."""
        if not self._ended:
            self._ended = True
            self._body.cancel()
        self._release(0)

    def _release(self, kept: int) -> None:
        """Release the bytes that were charged, but for those that wait unread, unless items are kept."""
        count, self._body.held = self._body.held - kept, kept
        if count and not self.kept and self._call.held is not None:
            self._call.held.add(-count)

"""Answers of foreign gRPC services in JSON form: how much of one is turned into Python values, and where.

A message of a few bytes can stand for many values: each inner message prints all fields that it could have.
Turning one into its JSON form costs some microseconds and holds the interpreter, so the values are counted
first, and a message of more than a few KiB is turned by a thread, beside which the event loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

T = TypeVar("T")

MAX_MESSAGE: Final = 4 << 20  # bytes of one message: gRPC's own default for clients
ON_LOOP_BYTES: Final = 4096  # of a message that is turned on the event loop, in 20 ms at most
MAX_VALUES: Final = 1_000_000  # of one answer, with each message as `LEAST_OF_MESSAGE` values or more
LEAST_OF_MESSAGE: Final = 10  # values that take as long as an empty message
ANY: Final = "google.protobuf.Any"  # holds another message in its bytes, which are counted unread


class TooManyValuesError(Exception):
    """The message stands for more values than are taken."""

    def __init__(self) -> None:
        super().__init__(
            f"it has more than {MAX_VALUES} values, with each message as {LEAST_OF_MESSAGE} or more"
        )


class ThreadBeside:
    """One thread for work that would hold up the event loop; a thread more would only slow the loop down."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run work after what was given before; a cancelled wait drops what has not begun."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "kwiken-foreign-grpc")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Drop what has not begun. What runs is bounded, and ends by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def json_form(message: Message, most: int = MAX_VALUES) -> tuple[Any, int]:
    """JSON form of a message, with fields named as in the `.proto`, and the number of its values.

    Raises:
        TooManyValuesError: the message has more.
        json_format.Error, TypeError, ValueError: the message has no JSON form.
    """
    count = _values(message, most)
    form = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return form, count


def _values(message: Message, most: int) -> int:
    """Number of values that the JSON form of a message has; stops at the first that is too many."""
    count = 0
    waiting: list[Any] = [message]
    while waiting:
        each = waiting.pop()
        descriptor = each.DESCRIPTOR
        count += max(LEAST_OF_MESSAGE, len(descriptor.fields))
        for field, value in each.ListFields():
            if descriptor.full_name == ANY and field.name == "value":
                count += LEAST_OF_MESSAGE * len(value)
            elif isinstance(value, Message):
                waiting.append(value)
            elif not isinstance(value, (bool, bytes, float, int, str)):  # a list or a map
                count += len(value)
                if field.message_type is not None and count <= most:
                    waiting.extend(_messages_in(field, value))
            if count > most:
                raise TooManyValuesError
    return count


def _messages_in(field: Any, value: Any) -> Any:
    """Messages of a repeated field, or those that are values of a map."""
    if not field.message_type.GetOptions().map_entry:
        return value
    return value.values() if field.message_type.fields_by_name["value"].message_type is not None else ()

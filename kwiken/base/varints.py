"""Numbers of variable length, as Protocol Buffers encodes them: seven bits a byte, the lowest first."""

from __future__ import annotations

from typing import Final

from kwiken.base.errors import InputError

LAST_ONE_BYTE: Final = 0x7F  # largest number that a varint of one byte holds
MAX_VARINT: Final = 10  # bytes of the longest number, which has 64 bits


def varint(number: int) -> bytes:
    """Encode a number, 0 or more."""
    if number <= LAST_ONE_BYTE:
        return bytes((number,))
    if number < 1 << 14:  # two bytes: most bodies
        return bytes((number & LAST_ONE_BYTE | 0x80, number >> 7))
    out = bytearray()
    while number > LAST_ONE_BYTE:
        out.append(number & LAST_ONE_BYTE | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(message: bytes, place: int) -> tuple[int, int]:
    """Number at a place, and the place after it.

    Args:
        message: bytes that hold the number.
        place: index of the first byte of the number.

    Raises:
        InputError: the message ends within the number, or the number has more than `MAX_VARINT` bytes.
    """
    if place + 1 < len(message):  # nearly all numbers have one byte or two
        first, second = message[place], message[place + 1]
        if first <= LAST_ONE_BYTE:
            return first, place + 1
        if second <= LAST_ONE_BYTE:
            return first & LAST_ONE_BYTE | second << 7, place + 2
    number = 0
    for shift in range(0, 7 * MAX_VARINT, 7):
        if place >= len(message):
            raise malformed("it ends within a number")
        byte = message[place]
        place += 1
        number |= (byte & LAST_ONE_BYTE) << shift
        if byte <= LAST_ONE_BYTE:
            return number, place
    raise malformed("a number is too long")


def malformed(reason: str) -> InputError:
    """Error that says why bytes are no message of Protocol Buffers."""
    return InputError(f"not a message of Protocol Buffers: {reason}", where="message")

"""Wire format: header names, trace context, and encoding of bodies.

Bodies are MessagePack: a call is the array of the stage's inputs, an answer is the handler's value alone. The
gateway need not decode the answers of stages, so it may pass them on as received.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.service import Service
from kwiken.runtime.wire.transport.json_work import excess_work

HTTP: Final = "http"
GRPC: Final = "grpc"
SCHEMES: Final = (HTTP, GRPC)  # of replicas' addresses
CALL_PATH: Final = "/call"
REQUEST_PATH: Final = "/v1/request"
MSGPACK: Final = "application/msgpack"
JSON: Final = "application/json"

TRACEPARENT: Final = "traceparent"
STAGE: Final = "kw-stage"
SHARD: Final = "kw-shard"
ATTEMPT: Final = "kw-attempt"
DEADLINE: Final = "kw-deadline-ms"
PRIORITY: Final = "kw-priority"
THREADS: Final = "kw-threads"
BUSY: Final = "kw-busy-ms"
INFLIGHT: Final = "kw-inflight"
LATENCY: Final = "kw-latency-ms"
REFUSED: Final = "kw-refused"
FULL: Final = "full"  # value of kw-refused if the replica holds its largest number of calls; else 1
TIMING: Final = "kw-timing"
PARTIAL: Final = "kw-partial"
UTILITY: Final = "kw-utility"
KEEPS: Final = "kw-keeps"  # 1: the client will put the plan again if the gateway is replaced

MAX_BODY: Final = 16 << 20  # bytes
MAX_DEADLINE_MS: Final = 3_600_000.0
# Limits of the figures that a replica reports: they affect the choice of replicas and the charge for threads.
MAX_BUSY_MS: Final = 1e9
MAX_INFLIGHT: Final = 1_000_000
MAX_ATTEMPT: Final = 1_000_000

# `float` and `int` accept more than a header may contain: underscores, digits of other scripts, `nan`, `1e9`.
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_WHOLE = re.compile(r"-?[0-9]{1,15}")
_ADDRESS = re.compile(r"([a-z]{1,8})://([A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5})\Z")
# Place that a decoder's message names: the number of an input, and the path within the input.
_INPUT = re.compile(r" - at `\$\[(?P<index>\d{1,4})\](?P<path>[^`]*)`\Z")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")
_PLACE: Final = re.compile(r" - at `(?:key in )?\$\.?(?P<path>[^`]*)`\Z")
_KINDS: Final = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_PARTS: Final = {"str": "letter", "array": "entry", "object": "field", "bytes": "byte"}
_REWRITES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"Object missing required field `(.*)`"), lambda m: f"the field {m[1]!r} is missing"),
    (re.compile(r"Object contains unknown field `(.*)`"), lambda m: f"unknown field {m[1]!r}"),
    (re.compile(r"Expected `(.+)`, got `(.+)`"), lambda m: f"must be {_kinds(m[1])}, not {_kinds(m[2])}"),
    (
        re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)"),
        lambda m: f"must have at {'most' if m[2] == '<=' else 'least'} {_many(int(m[3]), m[1])}",
    ),
    (re.compile(r"Expected `\w+` >= (\S+)"), lambda m: f"must be {m[1]} or more"),
    (re.compile(r"Expected `\w+` <= (\S+)"), lambda m: f"must be {m[1]} or less"),
    (re.compile(r"Expected `\w+` > (\S+)"), lambda m: f"must be more than {m[1]}"),
    (re.compile(r"Expected `\w+` < (\S+)"), lambda m: f"must be less than {m[1]}"),
    (re.compile(r"Input data was truncated"), lambda _: "the JSON ends too early"),
)


def plain_message(message: str) -> str:
    """Rewrite a decoder's message: the field comes first, and types are named in plain words.

    Args:
        message: message of `msgspec`; an unknown one stays as it is.
    """
    place = _PLACE.search(message)
    said = message[: place.start()] if place is not None else message
    for pattern, say in _REWRITES:
        found = pattern.fullmatch(said)
        if found is not None:
            said = say(found)
            break
    return f"{place['path']}: {said}" if place is not None and place["path"] else said


def _kinds(text: str) -> str:
    return " or ".join(_KINDS.get(kind, f"`{kind}`") for kind in text.split(" | "))


def _many(count: int, kind: str) -> str:
    part = _PARTS.get(kind, "entry")
    several = f"{part[:-1]}ies" if part.endswith("y") else f"{part}s"
    return f"{count} {part if count == 1 else several}"


class Parent(NamedTuple):
    """Trace context of a caller.

    Attributes:
        trace_id: trace id, 128 bits, not 0.
        span_id: id of the caller's span, 64 bits, not 0.
    """

    trace_id: int
    span_id: int
    sampled: bool


def parse_traceparent(text: str | None) -> Parent | None:
    """Parse the caller's trace context; None if the header is missing or invalid.

    An invalid header is no error: by the standard the receiver starts a trace of its own
    (W3C Trace Context, section 3.2.2.3 to 3.2.2.5).
    """
    match = _TRACEPARENT.match(text) if text is not None else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    parent = Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1))
    return parent if parent.trace_id and parent.span_id else None


def format_traceparent(trace_id: int, span_id: int, *, sampled: bool = True) -> str:
    """Header for a call made in one of this process's spans.

    Args:
        trace_id: trace id, 128 bits.
        span_id: id of the span, 64 bits.
    """
    # `hex` of the bytes takes half as long as the number's own format.
    return f"00-{trace_id.to_bytes(16).hex()}-{span_id.to_bytes(8).hex()}-{'01' if sampled else '00'}"


def read_number(headers: Mapping[str, str], name: str, *, low: float, high: float) -> float | None:
    """Parse a number in a header; None if the header is missing.

    Raises:
        InputError: not a number in plain decimal digits from `low` to `high`; names the header.
    """
    text = headers.get(name)
    if text is None:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else None
    if value is None or not low <= value <= high:
        raise InputError(
            f"must be a number from {low:g} to {high:g}, not {text[:40]!r}", where=f"header {name}"
        )
    return value


def read_whole(headers: Mapping[str, str], name: str, *, low: int, high: int) -> int | None:
    """Parse a whole number in a header; None if the header is missing.

    Raises:
        InputError: not a whole number from `low` to `high`; names the header.
    """
    text = headers.get(name)
    if text is None:
        return None
    value = int(text) if _WHOLE.fullmatch(text) else None
    if value is None or not low <= value <= high:
        raise InputError(
            f"must be a whole number from {low} to {high}, not {text[:40]!r}", where=f"header {name}"
        )
    return value


def split_address(text: str, *, where: str, schemes: Collection[str] = (HTTP,)) -> tuple[str, int]:
    """Split a replica's address into host and port.

    Raises:
        InputError: the address has another form or scheme; names `where`.
    """
    match = _ADDRESS.match(text)
    if match is None or match[1] not in schemes or not 0 < int(match[3]) < 1 << 16:
        forms = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
        raise InputError(f"an address must be {forms}, not {text[:80]!r}", where=where)
    return match[2].strip("[]"), int(match[3])


class Codec:
    """Decoder of one stage's calls and answers, by the annotated types of its handler.

    Raises:
        DefinitionError: the stage has no handler, or its types cannot be encoded.
    """

    def __init__(self, service: Service, stage: str) -> None:
        signature = service.signature(stage)
        self.stage = stage
        self.takes_shard = signature.takes_shard
        self._sources = service[stage].after
        self.takes_threads = signature.takes_threads
        self._answer = signature.output
        try:
            self._inputs = msgspec.msgpack.Decoder(tuple[signature.inputs])  # type: ignore[name-defined]  # built at run time
            self._output = msgspec.msgpack.Decoder(signature.output)
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"its types cannot go over the wire: {error}", stage=stage) from error

    def inputs(self, body: bytes) -> tuple[Any, ...]:
        """Decode the handler's inputs from the body of a call.

        Raises:
            InputError: the body has other types; names the stage and the field.
        """
        try:
            inputs: tuple[Any, ...] = self._inputs.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputError(self._unfit_input(str(error)), where=f"stage {self.stage!r}") from error
        return inputs

    def _unfit_input(self, message: str) -> str:
        """Message for an input of another type; names the parent whose answer it is, if there is one."""
        found = _INPUT.search(message)
        if found is None or not self._sources:
            return f"its input does not fit: {message}"
        place = f" - at `${found['path']}`" if found["path"] else ""
        parent = self._sources[int(found["index"])]
        return f"its input from {parent!r} does not fit: {message[: found.start()]}{place}"

    def output(self, body: bytes) -> Any:
        """Decode the handler's answer from the body of a reply.

        Raises:
            InputError: the body has other types; names the stage and the field.
        """
        try:
            return self._output.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputError(f"its answer does not fit: {error}", where=f"stage {self.stage!r}") from error

    def fit(self, value: Any) -> Any:
        """Convert a handler's own answer to its annotated type, as if it had gone over the wire.

        Raises:
            TypeError: the answer has another type; names the field.
        """
        try:
            return msgspec.convert(value, self._answer)
        except (msgspec.ValidationError, RecursionError):
            pass  # some values have another form on the wire, for example dates
        try:
            return self._output.decode(msgspec.msgpack.encode(value))
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"its answer does not fit: {error}") from None


# The first half of a surrogate pair without the second.
_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")


class RequestReader:
    """Reads JSON requests into the type that the service's sources take.

    Raises:
        DefinitionError: the sources take different types, which one request cannot satisfy.
    """

    def __init__(self, service: Service) -> None:
        kinds: dict[str, Any] = {}
        for name in service.sources:
            kind = service.signature(name).inputs[0]
            if kind is not Any:
                kinds[name] = kind
        first = next(iter(kinds.values()), Any)
        for name, kind in kinds.items():
            if kind != first:
                raise DefinitionError(
                    f"takes {kind}, but another source takes {first}; a request has one type", stage=name
                )
        self._decoder = msgspec.json.Decoder(first)

    def read(self, body: bytes) -> Any:
        """Decode a request.

        Raises:
            InputError: names the field with a wrong type, or the offset of the syntax error; or
                says that the text takes too long to decode.
        """
        if (excess := excess_work(body)) is not None:
            raise InputError(excess, where="request")
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # The decoder reports a missing second surrogate as truncated input.
            half = "truncated" in str(error) and _HALF.search(body)
            reason = (
                f"{half[0].decode()} is half a character; its other half must follow"
                if half
                else plain_message(str(error))
            )
            raise InputError(reason, where="request") from error

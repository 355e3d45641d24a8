"""Decoders of everything that comes from outside: damaged input is read, or refused by the decoder's own error.

Each decoder has examples in `corpus`, as it reads them. The tests damage them: bytes are cut out, repeated,
replaced, or taken from another example. An input that once did harm belongs into `corpus` as another example.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.codec import profile_from_json
from kwiken.model.service.codec import service_from_json, service_from_yaml
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.metrics.several import families_from_bytes
from kwiken.runtime.engine.status_document import Status
from kwiken.runtime.gateway.control.plan_store import PlanStore
from kwiken.runtime.gateway.control.steering import read_note, read_setting
from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.foreign.http_connection import HttpConnection, UnreadReplyError
from kwiken.runtime.wire.grpc.messages import payload_of
from kwiken.runtime.wire.transport.http_head import BadHeadError, read_length, split_head
from kwiken.runtime.wire.transport.wire import Codec, parse_traceparent
from kwiken.tail.autopilot.record import AutopilotRecord
from tests.runtime.wire.foreign.test_http_connection import Wire
from tests.support.services.http import service

CORPUS: Final = Path(__file__).parent / "corpus"
EXAMPLES: Final = {path.name: path.read_bytes() for path in sorted(CORPUS.glob("*/*"))}
MAX_INPUT: Final = 1 << 16  # bytes
TOKENS: Final = (
    *(
        b"",
        b"\0",
        b"\r\n",
        b"\r",
        b"\n",
        b"\r\n\r\n",
        b":",
        b",",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b"\xff",
    ),
    *(b"null", b"true", b"NaN", b"1e999", b"-1", b"0", b"18446744073709551616", b"9" * 400, b"[" * 2000),
    *(b"\\ud800", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\xc1", b"\xdf\xff\xff\xff\xff"),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"ffffffff\r\n", b"&a", b"*a", b"<<: *a"),
)
REFUSALS: Final = (
    InputError,
    DefinitionError,
    BadHeadError,
    BrokenReplyError,
    UnreadReplyError,
    msgspec.MsgspecError,
)


def _head(data: bytes) -> None:
    split = split_head(data)
    if split is not None:
        read_length(split[1])


def _answer(data: bytes) -> None:
    async def fed() -> None:
        connection = HttpConnection(asyncio.get_running_loop(), MAX_INPUT)
        wire = Wire()
        connection.connection_made(wire)
        exchange = asyncio.create_task(connection.exchange(b"ask"))
        await asyncio.sleep(0)
        for place in range(0, len(data), 1000):
            if not wire.closed:
                connection.data_received(data[place : place + 1000])
        connection.connection_lost(None)
        await exchange

    asyncio.run(fed())


def _grpc(data: bytes) -> None:
    for read in (payload_of,):
        with contextlib.suppress(InputError):
            read(data)


def _kept(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept"
        path.write_bytes(data)
        PlanStore(path).read()


def _inputs(data: bytes) -> None:
    Codec(service, "middle").inputs(data)


def _traces(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traces.json"
        path.write_bytes(data)
        fit_profile([path])


def _status(data: bytes) -> None:
    with contextlib.suppress(ValueError, RecursionError):  # as the client takes them
        msgspec.json.decode(data, type=Status)


def _service(data: bytes) -> None:
    for read in (service_from_json, service_from_yaml):
        try:
            read(data, where="service")
        except (InputError, DefinitionError) as error:
            check_refusal(error)


DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "families": families_from_bytes,
    "foreign": _answer,
    "grpc": _grpc,
    "inputs": _inputs,
    "jaeger": _traces,
    "nodes": lambda data: nodes_from_toml(data, where="nodes"),
    "kept": _kept,
    "note": read_note,
    "otlp": _traces,
    "plan": lambda data: Plan.from_json(data, where="plan"),
    "profile": lambda data: profile_from_json(data, where="profile"),
    "record": lambda data: AutopilotRecord.from_json(data, where="record"),
    "request": _head,
    "service": _service,
    "setting": read_setting,
    "status": _status,
    "trace": lambda data: parse_traceparent(data.decode("latin-1")),
    "zipkin": _traces,
}


def check_refusal(error: Exception) -> None:
    """A refusal is one line, which can be shown anywhere."""
    line = str(error)
    if isinstance(error, InputError | DefinitionError):
        assert "\n" not in line
        assert "\x1b" not in line


@st.composite
def damaged(draw: st.DrawFn, examples: list[bytes]) -> bytes:
    """One of the examples, with some edits."""
    data = draw(st.sampled_from(examples))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 60)))
        other = draw(st.sampled_from(examples))
        start = draw(st.integers(0, len(other)))
        patch = draw(
            st.one_of(
                st.sampled_from(TOKENS),
                st.binary(max_size=12),
                st.just(data[at:end] * draw(st.integers(2, 50))),
                st.just(other[start : start + draw(st.integers(0, 200))]),
            )
        )
        data = (data[:at] + patch + data[end:])[:MAX_INPUT]
    return data


def _examples(decoder: str) -> list[bytes]:
    return [data for name, data in EXAMPLES.items() if name.startswith(f"{decoder}-")]


def test_every_decoder_has_examples_and_every_example_a_decoder() -> None:
    assert {name.rsplit("-", 1)[0] for name in EXAMPLES} == set(DECODERS)


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_examples_are_read_or_refused(decoder: str) -> None:
    for data in _examples(decoder):
        DECODERS[decoder](data)


@pytest.mark.parametrize("decoder", DECODERS)
@given(data=st.data())
@settings(max_examples=50)
def test_damaged_input_is_read_or_refused(decoder: str, data: st.DataObject) -> None:
    text = data.draw(damaged(_examples(decoder)))
    try:
        DECODERS[decoder](text)
    except REFUSALS as error:
        check_refusal(error)

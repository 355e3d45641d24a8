"""Both ends of the frame protocol by bytes alone: cut, merged, wrong, unknown, replayed, and never read."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.runtime.wire.frames.messages import (
    MAX_CALLS,
    MAX_FRAME,
    NEWEST,
    PIECE,
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
    offer,
    read_offer,
    read_response,
    response,
)
from kwiken.runtime.wire.frames.protocol import AnswerBegins, ClientEnd, OversizeItem, ServerEnd
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget
from tests.support.peers.misbehaving import answer, framed

MAX_BODY: Final = 1 << 20
BUDGET: Final = 8 << 20
SIZES = st.one_of(st.integers(0, 200), st.integers(PIECE - 2, PIECE + 2), st.integers(0, 3 * WINDOW))


def call_frame(**changes: Any) -> CallFrame:
    frame = CallFrame(0, True, 0, b"", "stage", 0, 0, 1000.0, 0, 1, "")
    for name, value in changes.items():
        setattr(frame, name, value)
    return frame


def body_of(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


class Pair:
    """A client's and a server's end, between which bytes pass in pieces of any size."""

    def __init__(self, rng: random.Random, *, budget: int = BUDGET) -> None:
        self.rng = rng
        self.budget = ByteBudget(budget)
        self.client = ClientEnd(MAX_BODY)
        self.server = ServerEnd(MAX_BODY, self.budget)
        self.wires = {True: bytearray(), False: bytearray()}
        self.heard: dict[bool, list[Any]] = {True: [], False: []}

    def carry(self, *, to_server: bool, count: int | None = None) -> bool:
        """Pass some bytes; returns whether any passed."""
        source, sink = (self.client, self.server) if to_server else (self.server, self.client)
        wire = self.wires[to_server]
        wire += source.take()
        if not wire:
            return False
        count = count or self.rng.choice((1, 3, 100, 5_000, 70_000, len(wire)))
        data = bytes(wire[:count])
        del wire[:count]
        heard = sink.receive(data)
        for frame in heard:
            sink.taken(frame.id)
        self.heard[to_server] += heard
        return True

    def settle(self) -> None:
        """Pass bytes both ways until none are left."""
        while any([self.carry(to_server=True), self.carry(to_server=False)]):
            pass


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=6), st.integers(0, 2**32))
@settings(max_examples=25)
def test_calls_and_answers_arrive_whole_however_bytes_are_cut_and_merged(
    sizes: list[tuple[int, int]], seed: int
) -> None:
    pair = Pair(random.Random(seed))
    for number, (there, back) in enumerate(sizes, 1):
        assert pair.client.call(call_frame(), body_of(there, number)) == number
        for _ in range(pair.rng.randrange(3)):
            pair.carry(to_server=True)
        del back
    pair.settle()
    calls = {frame.id: frame for frame in pair.heard[True]}
    assert {number: frame.data for number, frame in calls.items()} == {
        number: body_of(there, number) for number, (there, _) in enumerate(sizes, 1)
    }
    for number, (_, back) in enumerate(sizes, 1):
        pair.server.answer(answer(number, b""), body_of(back, -number))
    pair.settle()
    answers = {frame.id: frame.data for frame in pair.heard[False] if isinstance(frame, AnswerFrame)}
    assert answers == {number: body_of(back, -number) for number, (_, back) in enumerate(sizes, 1)}
    assert (pair.client.open, pair.server.open, pair.budget.taken) == (0, 0, 0)
    assert (pair.client.unsent, pair.server.unsent, pair.client.awaits_peer) == (0, 0, False)


@given(
    st.lists(SIZES, min_size=1, max_size=5), st.lists(SIZES, min_size=1, max_size=5), st.integers(0, 2**32)
)
@settings(max_examples=25)
def test_a_call_may_have_several_items_each_way(there: list[int], back: list[int], seed: int) -> None:
    pair = Pair(random.Random(seed))
    rest = len(there) - 1
    number = pair.client.call(call_frame(last=not rest), body_of(there[0], 0))
    for place, size in enumerate(there[1:], 1):
        pair.client.item(number, body_of(size, place), last=place == rest)
    pair.settle()
    assert [frame.data for frame in pair.heard[True]] == [body_of(size, at) for at, size in enumerate(there)]
    rest = len(back) - 1
    pair.server.answer(answer(number, b"", last=not rest), body_of(back[0], 0))
    pair.settle()  # the first answer may come long before the second is there
    for place, size in enumerate(back[1:], 1):
        pair.server.item(number, body_of(size, place), last=place == rest)
    pair.settle()
    heard = [frame.data for frame in pair.heard[False] if not isinstance(frame, AnswerBegins)]
    assert heard == [body_of(size, at) for at, size in enumerate(back)]
    assert (pair.client.open, pair.server.open, pair.budget.taken) == (0, 0, 0)


class Story:
    """Random calls, cancels, refusals and ends, with bytes on their way between any two of them."""

    def __init__(self, seed: int) -> None:
        self.pair = Pair(random.Random(seed), budget=1 << 20)
        self.bodies: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.ended: dict[int, Any] = {}
        self.held: list[int] = []
        self.cancels = 0
        self.read = {True: 0, False: 0}

    def step(self) -> None:
        rng, pair = self.pair.rng, self.pair
        what = rng.random()
        if what < 0.3:
            size = rng.choice((0, 50, PIECE, 2 * PIECE + 1, WINDOW + 5, MAX_BODY, MAX_BODY + 1))
            self.bodies[pair.client.call(call_frame(), bytes(size))] = size
        elif what < 0.4 and self.bodies:
            number = rng.choice(list(self.bodies))
            if number not in self.ended:
                self.cancelled.add(number)
            pair.client.cancel(number)
        elif what < 0.6 and self.held:
            self.answer(self.held.pop(rng.randrange(len(self.held))))
        else:
            pair.carry(to_server=rng.random() < 0.5)
        self.hear()

    def answer(self, number: int) -> None:
        rng = self.pair.rng
        if rng.random() < 0.2:
            self.pair.server.ended(number, 1.0)
        else:
            size = rng.choice((0, 50, PIECE + 1, WINDOW + 5, MAX_BODY, MAX_BODY + 1))
            self.pair.server.answer(answer(number, b""), bytes(size))

    def hear(self) -> None:
        pair = self.pair
        for frame in pair.heard[True][self.read[True] :]:
            if isinstance(frame, CallFrame):
                assert len(frame.data) == self.bodies[frame.id] <= MAX_BODY
                self.held.append(frame.id)
            elif isinstance(frame, OversizeItem):
                pair.server.answer(answer(frame.id, b"", status=503, refused="full"), b"full")
            else:
                assert isinstance(frame, CancelFrame)
                assert frame.id in self.cancelled
                if frame.id in self.held:
                    self.held.remove(frame.id)
                pair.server.ended(frame.id, 2.0)
        self.read[True] = len(pair.heard[True])
        for frame in pair.heard[False][self.read[False] :]:
            if isinstance(frame, AnswerBegins):
                continue
            assert frame.id not in self.ended, "a call ends once"
            self.ended[frame.id] = frame
        self.read[False] = len(pair.heard[False])
        assert 0 <= pair.budget.taken <= pair.budget.most
        assert pair.client.open <= MAX_CALLS

    def end(self) -> None:
        for _ in range(200):
            self.pair.settle()
            self.hear()
            if not self.held:
                break
            self.answer(self.held.pop())


@pytest.mark.parametrize("seed", range(20))
def test_every_call_ends_once_whatever_is_cancelled_refused_or_ended(seed: int) -> None:
    story = Story(seed)
    for _ in range(300):
        story.step()
    story.end()
    pair = story.pair
    # A call that was cancelled when its answer had begun needs no further end.
    assert set(story.bodies) - set(story.ended) <= story.cancelled
    assert (pair.client.open, pair.server.open, pair.budget.taken) == (0, 0, 0)
    assert (pair.client.unsent, pair.server.unsent) == (0, 0)
    assert (pair.client.awaits_peer, pair.server.awaits_peer) == (False, False)


def feed(end: ServerEnd | ClientEnd, frames: list[bytes]) -> None:
    for frame in frames:
        end.receive(frame)


def begun_server() -> ServerEnd:
    server = ServerEnd(MAX_BODY, ByteBudget(BUDGET))
    server.receive(offer() + framed(call_frame(id=3, size=2, data=b"hi")))
    return server


LONG = call_frame(id=4, size=100_000, data=bytes(PIECE))

BAD_TO_SERVER: Final[dict[str, list[bytes]]] = {
    "a frame longer than any": [framed(b"", length=MAX_FRAME + 1)],
    "a length of all bits": [b"\xff\xff\xff\xff"],
    "an empty frame": [framed(b"")],
    "no MessagePack": [framed(b"\xc1")],
    "nesting": [framed(b"\x91" * 5000)],
    "an unknown kind": [framed(msgspec.msgpack.encode([77, 1]))],
    "a field too many": [framed(msgspec.msgpack.encode([6, 3, 1]))],
    "a field too few": [framed(msgspec.msgpack.encode([6]))],
    "an answer": [framed(answer(3, b""))],
    "a replayed call": [framed(call_frame(id=3))],
    "an older call": [framed(call_frame(id=1))],
    "call zero": [framed(call_frame(id=0))],
    "a negative call": [framed(call_frame(id=-1))],
    "a call beyond numbers": [framed(call_frame(id=(1 << 62) + 1))],
    "more data than told": [framed(call_frame(id=4, size=1, data=b"ab"))],
    "a negative size": [framed(call_frame(id=4, size=-1))],
    "a tiny first piece": [framed(call_frame(id=4, size=5000, data=b"a"))],
    "a long first piece": [framed(call_frame(id=4, size=PIECE + 1, data=bytes(PIECE + 1)))],
    "a piece too long": [framed(LONG), framed(PieceFrame(4, bytes(PIECE + 1)))],
    "a piece too much": [
        framed(call_frame(id=4, size=4000, data=bytes(2000))),
        framed(PieceFrame(4, bytes(2001))),
    ],
    "an empty piece": [framed(LONG), framed(PieceFrame(4, b""))],
    "a tiny piece": [framed(LONG), framed(PieceFrame(4, b"a"))],
    "a piece of a call to come": [framed(PieceFrame(9, b"a"))],
    "a cancel of a call to come": [framed(CancelFrame(9))],
    "a cancel of no call": [framed(CancelFrame(0))],
    "credit for a call to come": [framed(CreditFrame(9, 1))],
    "an item of a call to come": [framed(ItemFrame(9, True, 0, b""))],
    "an item within an item": [framed(LONG), framed(ItemFrame(4, True, 0, b""))],
    "calls without end": [framed(call_frame(id=number)) for number in range(4, MAX_CALLS + 4)],
}


@pytest.mark.parametrize("name", BAD_TO_SERVER)
def test_a_client_that_breaks_the_protocol_is_cut_off(name: str) -> None:
    server = begun_server()
    with pytest.raises(FrameError):
        feed(server, BAD_TO_SERVER[name])


BAD_TO_CLIENT: Final[dict[str, list[bytes]]] = {
    "an answer to no call": [framed(answer(2, b""))],
    "a replayed answer": [framed(answer(1, b"")), framed(answer(1, b""))],
    "an answer within one": [framed(answer(1, bytes(2000), size=5000)), framed(answer(1, b""))],
    "more than told": [framed(answer(1, b"ab", size=1))],
    "a call": [framed(call_frame(id=1))],
    "a cancel": [framed(CancelFrame(1))],
    "an end of a call to come": [framed(EndedFrame(2, 0.0))],
    "credit that was not used": [framed(CreditFrame(1, WINDOW + 1))],
    "an item too long": [framed(answer(1, b"", last=False)), framed(ItemFrame(1, True, 5, b"123456"))],
}


@pytest.mark.parametrize("name", BAD_TO_CLIENT)
def test_a_server_that_breaks_the_protocol_is_cut_off(name: str) -> None:
    client = ClientEnd(MAX_BODY)
    client.call(call_frame(), bytes(2 * WINDOW))
    client.receive(response(1))
    with pytest.raises(FrameError):
        feed(client, BAD_TO_CLIENT[name])


def test_frames_of_calls_that_have_ended_are_ignored() -> None:
    server = begun_server()
    server.answer(answer(3, b""), b"")
    assert (
        server.receive(framed(PieceFrame(3, b"x")) + framed(CreditFrame(3, 5)) + framed(CancelFrame(3))) == []
    )
    client = ClientEnd(MAX_BODY)
    client.call(call_frame(), b"")
    client.receive(response(1) + framed(answer(1, b"")))
    assert client.receive(framed(PieceFrame(1, b"x")) + framed(EndedFrame(1, 1.0)) + framed(ByeFrame())) == [
        ByeFrame()
    ]


@given(st.binary(max_size=300), st.booleans(), st.booleans())
@settings(max_examples=300)
def test_noise_fails_in_the_documented_way_only(noise: bytes, begun: bool, as_server: bool) -> None:
    end = begun_server() if as_server else ClientEnd(MAX_BODY)
    if begun and not as_server:
        end.receive(response(1))
    with contextlib.suppress(FrameError):
        end.receive(noise)
        end.receive(framed(noise))


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_a_flipped_bit_is_refused_or_harmless(seed: int) -> None:
    """Real traffic with one bit wrong: never another error than the documented one."""
    rng = random.Random(seed)
    pair = Pair(rng)
    for size in (0, 10, PIECE + 1, 100):
        pair.client.call(call_frame(), bytes(size))
    data = bytearray(pair.client.take())
    while more := pair.client.take():
        data += more
    place = rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(8)
    with contextlib.suppress(FrameError):
        pair.server.receive(bytes(data))
    pair.server.close()
    assert pair.budget.taken == 0


def test_a_peer_that_sends_one_byte_at_a_time_costs_time_in_proportion() -> None:
    """No second copy of what has come: half a million bytes in steps of one take seconds at most."""
    server = ServerEnd(MAX_BODY, ByteBudget(BUDGET))
    client = ClientEnd(MAX_BODY)
    client.call(call_frame(), bytes(PIECE))
    whole = bytes(client.take())
    found = [frame for at in range(len(whole)) for frame in server.receive(whole[at : at + 1])]
    assert [len(frame.data) for frame in found] == [PIECE]


def test_a_peer_that_never_grants_credit_gets_a_window_and_no_more() -> None:
    server = begun_server()
    server.answer(answer(3, b""), bytes(MAX_BODY))
    sent = 0
    while server.has_more:
        sent += len(server.take())
    assert WINDOW <= sent < WINDOW + PIECE
    assert server.unsent == MAX_BODY - WINDOW


def test_short_answers_leave_before_the_rest_of_long_ones() -> None:
    server = ServerEnd(MAX_BODY, ByteBudget(BUDGET))
    server.receive(offer() + b"".join(framed(call_frame(id=number)) for number in (1, 2)))
    server.take()
    server.answer(answer(1, b""), bytes(WINDOW))
    server.take()
    server.answer(answer(2, b""), b"short")
    assert b"short" in bytes(server.take())[: 2 * PIECE]


def test_a_body_beyond_the_limits_is_not_taken_in() -> None:
    server = ServerEnd(MAX_BODY, ByteBudget(3 * MAX_BODY // 2))
    server.receive(offer())
    first = framed(call_frame(id=1, size=MAX_BODY, data=bytes(PIECE)))
    assert server.receive(first) == []
    assert server.receive(framed(call_frame(id=2, size=MAX_BODY, data=bytes(PIECE)))) == [
        OversizeItem(2, MAX_BODY, too_long=False)
    ]
    assert server.receive(framed(call_frame(id=3, size=MAX_BODY + 1, data=bytes(PIECE)))) == [
        OversizeItem(3, MAX_BODY + 1, too_long=True)
    ]
    server.receive(framed(CancelFrame(1)))
    server.ended(1, 0.0)
    assert server.receive(framed(call_frame(id=4, size=MAX_BODY, data=bytes(PIECE)))) == []


@pytest.mark.parametrize(
    ("newest", "oldest", "agreed"),
    [(NEWEST, NEWEST, NEWEST), (NEWEST + 1, NEWEST, NEWEST), (NEWEST + 2, NEWEST + 1, None)],
)
def test_both_sides_speak_the_newest_version_that_they_share(
    newest: int, oldest: int, agreed: int | None
) -> None:
    assert read_offer(offer(newest, oldest)) == agreed
    if agreed is not None:
        assert read_response(response(agreed)) == agreed
        return
    with pytest.raises(FrameError, match="this replica speaks versions"):
        read_response(response(None))
    server = ServerEnd(MAX_BODY, ByteBudget(BUDGET))
    with pytest.raises(FrameError):
        server.receive(offer(newest, oldest))
    assert bytes(server.take()) == response(None), "the client is told why"

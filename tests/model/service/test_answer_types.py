"""Types between stages: what can never fit is refused when the service is checked, and nothing else is."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError
from kwiken.model.service.service import Service, can_become
from kwiken.model.service.stage import Partial


class Hit(msgspec.Struct):
    name: str
    score: float = 0.0


class Scored(msgspec.Struct):
    score: float


class Tree(msgspec.Struct):
    children: list[Tree]


@dataclass
class Plain:
    name: str


class Named(TypedDict):
    name: str


class Pair(NamedTuple):
    one: int
    two: str


FITTING = [
    (int, int),
    (int, float),
    (int, Any),
    (Any, str),
    (str, str | None),
    (str | None, str),
    (list[int], list[float]),
    (list[int], tuple[int, ...]),
    (set[str], list[str]),
    (dict[str, int], dict[str, float]),
    (Hit, Hit),
    (Hit, Scored),
    (Hit, Plain),
    (Named, Hit),
    (Hit, dict[str, Any]),
    (dict[str, Any], Hit),
    (Tree, Tree),
    (Pair, list[Any]),
    (str, dt.datetime),
    (str, decimal.Decimal),
    (Literal["a", "b"], str),
    (object, int),
]
UNFIT = [
    (int, str),
    (float, int),
    (str, int),
    (str, bool),
    (None, int),
    (list[int], int),
    (list[int], list[str]),
    (list[list[int]], list[list[str]]),
    (dict[str, int], dict[str, str]),
    (dict[str, int], list[int]),
    (Hit, str),
    (Hit, list[str]),
    (Scored, Hit),
    (Plain, Scored),
    (int | bool, str),
    (int, str | list[int]),
]


@pytest.mark.parametrize(("answer", "wanted"), FITTING)
def test_what_can_fit_is_taken(answer: Any, wanted: Any) -> None:
    assert can_become(answer, wanted)


@pytest.mark.parametrize(("answer", "wanted"), UNFIT)
def test_what_never_fits_is_found(answer: Any, wanted: Any) -> None:
    assert not can_become(answer, wanted)


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**31), 2**31),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=5),
    bool: st.booleans(),
    None: st.none(),
    list[int]: st.lists(st.integers(0, 9), min_size=1, max_size=3),
    list[str]: st.lists(st.text(max_size=2), min_size=1, max_size=3),
    dict[str, int]: st.dictionaries(st.text(max_size=2), st.integers(0, 9), min_size=1, max_size=3),
}


@given(st.data(), st.sampled_from(list(SCALARS)), st.sampled_from(list(SCALARS)))
def test_what_is_refused_is_refused_by_the_wire_too(data: st.DataObject, answer: Any, wanted: Any) -> None:
    sent = msgspec.msgpack.encode(data.draw(SCALARS[answer]))
    try:
        msgspec.msgpack.decode(sent, type=wanted)
    except msgspec.ValidationError:
        return
    assert can_become(answer, wanted)


def test_a_mismatch_names_both_stages_and_types() -> None:
    service = Service("shop")

    @service.stage()
    async def count(request: str) -> int:
        return len(request)

    @service.stage(after=[count])
    async def show(text: str) -> str:
        return text

    with pytest.raises(DefinitionError, match=r"stage 'show': takes str from 'count', which answers int"):
        service.check()


def test_a_fan_outs_answers_are_compared_one_by_one() -> None:
    def service_of(kind: Any) -> Service:
        service = Service("shop")

        async def price(request: str, *, shard: int) -> int:
            return shard

        async def total(prices: Any) -> int:
            return 0

        total.__annotations__["prices"] = Partial[kind]
        service.stage(fanout=2)(price)
        service.stage(after=[price])(total)
        return service

    service_of(float).check()
    with pytest.raises(DefinitionError, match="takes str from 'price', which answers int"):
        service_of(str).check()


def test_without_annotations_everything_goes() -> None:
    service = Service("shop")

    async def one(request: str) -> str:
        return request

    async def two(given: int) -> int:
        return given

    one.__annotations__.clear()
    service.stage()(one)
    service.stage(after=[one])(two)
    service.check()

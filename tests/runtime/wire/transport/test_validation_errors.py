"""Validation errors of requests: messages that name the field and the expected type."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.wire.transport.wire import RequestReader


class Order(msgspec.Struct, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=5)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None
    tags: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=2)] = []
    exact: bool = False


@pytest.fixture(scope="module")
def reader() -> RequestReader:
    service = Service("shop")

    @service.stage()
    async def take(request: Order) -> int:
        return request.limit

    return RequestReader(service)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"query": "letters"}, "query: must have at most 5 letters"),
        ({"query": 1}, "query: must be text, not a whole number"),
        ({"query": "a", "limit": 0}, "limit: must be 1 or more"),
        ({"query": "a", "limit": 51}, "limit: must be 50 or less"),
        ({"query": "a", "share": 0}, "share: must be more than 0.0"),
        ({"query": "a", "share": 1}, "share: must be less than 1.0"),
        ({"query": "a", "share": []}, "share: must be a number or null, not a list"),
        ({"query": "a", "tags": ["b", "c", "d"]}, "tags: must have at most 2 entries"),
        ({"query": "a", "tags": ["b", ""]}, "tags[1]: must have at least 1 letter"),
        ({"query": "a", "exact": "yes"}, "exact: must be true or false, not text"),
        ({"query": "a", "colour": "red"}, "unknown field 'colour'"),
        ({}, "the field 'query' is missing"),
        ([], "must be an object, not a list"),
    ],
)
def test_names_the_field_and_its_limit(reader: RequestReader, body: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        reader.read(msgspec.json.encode(body))
    assert str(caught.value) == f"request: {says}"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the JSON ends too early"),
        (b'{"query": "a"', "the JSON ends too early"),
        (b'{"query": "a"} x', "JSON is malformed: trailing characters (byte 16)"),
        (b'{"query": "\\ud800"}', r"\ud800 is half a character; its other half must follow"),
    ],
)
def test_says_how_the_json_breaks(reader: RequestReader, body: bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        reader.read(body)
    assert str(caught.value) == f"request: {says}"

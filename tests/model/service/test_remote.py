"""Definitions of foreign services as stages: templates, checks at definition, documents."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service.codec import service_from_json, service_from_yaml, service_to_json, service_to_yaml
from kwiken.model.service.remote import GrpcCall, HttpCall, input_names, templates_of
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial, Reissue, Stage

URL = "http://prices:8000/p"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class Ask(msgspec.Struct):
    sku: str
    sizes: list[int]
    more: dict[str, int] | None = None


async def price(ask: Ask) -> dict[str, int]:
    raise NotImplementedError


def body_of(body: Any, *inputs: Any, after: tuple[str, ...] = (), fanout: int = 1) -> Any:
    """Body that a template becomes."""
    template = templates_of(HttpCall(URL, body=body), input_names(after, fanout)).body
    assert template is not None
    return template.fill(inputs)


@given(JSON)
def test_a_placeholder_alone_keeps_the_value_and_its_type(value: Any) -> None:
    assert body_of({"a": ["{request}"]}, value) == {"a": [value]}
    assert body_of("{request.x.0}", {"x": [value]}) == value


@given(JSON)
def test_values_are_not_read_as_templates(value: Any) -> None:
    text = json.dumps(value)
    assert body_of("<{request}>", text) == f"<{text}>"


@given(st.text())
def test_braces_are_doubled(text: str) -> None:
    assert body_of(text.replace("{", "{{").replace("}", "}}")) == text


def test_names_of_inputs() -> None:
    assert body_of("{request.a}-{shard}", {"a": 1.5}, 7, fanout=8) == "1.5-7"
    parents = ("a", "a.b", "c-d")
    assert body_of(
        ["{a}", "{a.b}", "{a.b.x}", "{c-d.y-z}"], 1, {"x": True}, {"y-z": None}, after=parents
    ) == [
        1,
        {"x": True},
        True,
        None,
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"remote": "prices:8000"}, "must be http://HOST"),
        ({"remote": "httpx://prices/p"}, "must be http://HOST.*, or https"),
        ({"remote": HttpCall(URL, tls_ca="ca.pem")}, "tls_ca has no effect: .* has a URL of https://"),
        ({"remote": HttpCall("https://prices/p", tls_cert="a.pem")}, "tls_cert and tls_key go together"),
        ({"remote": HttpCall("https://prices/p", tls_ca="")}, "must be paths of files, not empty"),
        ({"remote": "http://{request}/p"}, "must be http://HOST"),
        ({"remote": "http://u:p@prices/p"}, "must be http://HOST"),
        ({"remote": "http://prices:99999/p"}, "must be http://HOST"),
        ({"remote": "http://prices/a b"}, "percent-encode"),
        ({"remote": "http://prices/p#x"}, "percent-encode"),
        ({"remote": "http://prices/p\r\nX: y"}, "percent-encode"),
        ({"remote": "grpc://inventory/shop.Inventory/Get"}, "grpc://HOST:PORT/package.Service/Method"),
        ({"remote": "grpc://inventory:1/shop.Inventory"}, "grpc://HOST:PORT/package.Service/Method"),
        ({"remote": "grpcs://inventory/shop.Inventory/Get"}, "HOST:PORT/package.Service/Method, or grpcs"),
        ({"remote": 7}, "must be an HttpCall, a GrpcCall or a text, not 7"),
        ({"remote": HttpCall(7)}, r"remote: Expected `str`, got `int` - at `\$.url`"),  # type: ignore[arg-type]
        ({"remote": HttpCall(URL, method="TRACE")}, "method must be one of DELETE"),
        ({"remote": HttpCall(URL, method="GET", body={})}, "GET has no body"),
        ({"remote": HttpCall(URL, headers={"a b": "c"})}, "'a b' is not a header"),
        ({"remote": HttpCall(URL, headers={"a": "c\nd"})}, "'a' is not a header"),
        ({"remote": HttpCall(URL, headers={"Host": "c"})}, "'Host' is written by the runtime"),
        ({"remote": HttpCall(URL, attempts_header="a b")}, "attempts_header must be the name of a header"),
        ({"remote": HttpCall(URL, time_left_header="Host")}, "the header 'Host' has a value already"),
        (
            {"remote": HttpCall(URL, attempts_header="X", time_left_header="x")},
            "time_left_header: the header 'x' has a value already",
        ),
        ({"remote": HttpCall(URL, health="healthz")}, "health must be a path"),
        ({"remote": HttpCall(URL, addresses=("prices",))}, "must be HOST:PORT, not 'prices'"),
        ({"remote": HttpCall(f"{URL}/{{requests.sku}}")}, r"\{requests.sku\} names no input.*\{request\}"),
        ({"remote": HttpCall(f"{URL}/{{}}")}, r"\{\} names no input"),
        ({"remote": HttpCall(f"{URL}/{{request.__class__.x y}}")}, "percent-encode"),
        ({"remote": HttpCall(f"{URL}/{{request.f()}}")}, "is no placeholder"),
        ({"remote": HttpCall(f"{URL}/{{request")}, "'{' without its partner"),
        ({"remote": HttpCall(URL, body=["{shard}"])}, r"\{shard\} names no input"),
        ({"remote": HttpCall(URL, body={"a": object()})}, "remote: "),
        ({"remote": URL, "after": ("a", "b")}, "has the inputs a, b; say by `body`"),
        ({"remote": "grpc://i:1/a.B/C", "after": ("a", "b")}, "has the inputs a, b; say by `message`"),
        ({"remote": GrpcCall("grpc://i:1/a.B/C", descriptors="")}, "descriptors must be the path"),
        ({"remote": URL, "replicas": 2}, "its replicas are the addresses of `remote`"),
        ({"remote": URL, "threads": 2}, "takes no number of threads"),
        ({"remote": URL, "setup": print}, "no process would run its setup"),
        ({"remote": URL, "reissue": Reissue(after_ms=5)}, "not idempotent"),
    ],
)
def test_a_mistake_is_one_line_with_the_stages_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=rf"^stage 'price': .*({message})"):
        Stage(name="price", **settings)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("request.sku", None),
        ("request.sizes.0", None),
        ("request.more.any", None),
        ("request.name", "Ask has no 'name'"),
        ("request.sku.x", "Ask has no 'x'"),
        ("request.sizes.first", "Ask has no 'first'"),
        ("request.more.any.x", "Ask has no 'x'"),
    ],
)
def test_fields_are_checked_against_the_declared_types(place: str, message: str | None) -> None:
    service = Service.of("shop", [Stage(name="price", handler=price, remote=f"{URL}/{{{place}}}")])
    if message is None:
        service.check()
    else:
        with pytest.raises(DefinitionError, match=rf"stage 'price': remote: \{{{place}\}}: .*{message}"):
            service.check()


def test_fields_of_parents_are_checked_without_a_declaration() -> None:
    async def first(ask: Any, *, shard: int) -> Ask:
        raise NotImplementedError

    for place, fits in (("first.values.0.sku", True), ("first.sku", False), ("first.values.0.id", False)):
        stages = [
            Stage(name="first", handler=first, fanout=2),
            Stage(name="price", after=("first",), remote=f"{URL}/{{{place}}}"),
        ]
        service = Service.of("shop", stages)
        if fits:
            service.check()
        else:
            with pytest.raises(DefinitionError, match="stage 'price': remote: "):
                service.check()


def test_types_between_foreign_and_own_stages_are_checked() -> None:
    async def count(prices: list[int]) -> int:
        return len(prices)

    service = Service("shop")
    service.stage(remote=URL)(price)
    service.stage(after=[price])(count)
    with pytest.raises(DefinitionError, match=r"stage 'count': takes list\[int\] from 'price'"):
        service.check()


def test_a_fan_out_of_a_foreign_service_needs_a_merge() -> None:
    async def last(prices: Partial[Any]) -> int:
        return len(prices.values)

    stages = [Stage(name="price", remote=f"{URL}/{{shard}}", fanout=3)]
    Service.of("shop", [*stages, Stage(name="last", after=("price",), handler=last)]).check()
    with pytest.raises(DefinitionError, match="fan-out without merge"):
        Service.of("shop", stages).check()


REMOTES = (
    HttpCall(URL),
    HttpCall(
        f"{URL}/{{request.sku}}",
        method="PUT",
        body={"a": ["{request}"], "b": None},
        headers={"x": "y"},
        health="/h",
        addresses=("10.0.0.1:80", "[::1]:81", "prices:82"),
    ),
    HttpCall(URL, body=None),
    HttpCall(URL, stream="events"),
    HttpCall(URL, stream="events", end_mark=None),
    HttpCall(URL, stream="lines", end_mark="end"),
    GrpcCall("grpc://i:1/a.B/C", stream=True),
    GrpcCall("grpc://i:1/a.B/C"),
    GrpcCall(
        "grpc://i:1/a.B/C",
        message={"id": "{request.id}"},
        descriptors="x.pb",
        health="a.B",
        addresses=("i:2",),
    ),
)


@pytest.mark.parametrize("remote", REMOTES)
def test_documents_hold_the_whole_call(remote: HttpCall | GrpcCall) -> None:
    service = Service.of("shop", [Stage(name="price", remote=remote, idempotent=True)])
    for read, text in (
        (service_from_json, service_to_json(service)),
        (service_from_yaml, service_to_yaml(service)),
    ):
        again = read(text)
        assert again == service
        assert again["price"].remote_call == remote
        again.check()


def test_a_document_with_a_wrong_call_is_refused_with_its_place() -> None:
    text = service_to_json(Service.of("shop", [Stage(name="price", remote=URL)]))
    with pytest.raises(InputError, match=r"stage 'price'.*verb"):
        service_from_json(text.replace('"url"', '"verb": 1, "url"'))


def test_addresses() -> None:
    assert HttpCall("http://prices/p").endpoints == ("prices:80",)
    assert HttpCall(URL).endpoints == ("prices:8000",)
    assert HttpCall(URL, addresses=("a:1", "b:2")).endpoints == ("a:1", "b:2")
    assert GrpcCall("grpc://[::1]:1/a.B/C").endpoints == ("grpc://[::1]:1",)
    stage = Stage(name="price", remote=HttpCall(URL, addresses=["a:1"]))  # type: ignore[arg-type]
    assert stage.remote_call is not None
    assert stage.remote_call.addresses == ("a:1",)

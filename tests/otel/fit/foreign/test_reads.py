"""Which calls may be copied, by their spans, those of their callees, and the spans below."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwiken.model.profile.idempotence import taken_for
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import FORMS, Trace, filed, requests, without_kinds

Make = Callable[[Trace], None]
SQL: dict[str, Any] = {"db__system": "postgresql"}


def fitted(make: Make, form: str, folder: Path, number: int = 100, **options: Any) -> Profile:
    return fit_profile([filed(folder, requests(make, number), form)], **options)


def called(route: str, below: Callable[[Trace, Any], None], name: str = "POST", **stated: Any) -> Make:
    """A request that calls `work` by a route, which does what `below` makes."""

    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "POST /do", 0, 30, "server")
        trace.call(root, "GET", "user", "GET /user", 1, 6)
        _, server = trace.call(root, name, "work", route, 7, 27, **stated)
        below(trace, server)

    return make


def statement(text: str, name: str = "query") -> Callable[[Trace, Any], None]:
    def make(trace: Trace, server: Any) -> None:
        trace.span(server, "work", name, 9, 20, "client", **SQL, db__statement=text)

    return make


def nothing(trace: Trace, server: Any) -> None:
    """No spans below."""


def selects(trace: Trace, server: Any) -> None:
    statement("SELECT a FROM t WHERE b = 1")(trace, server)


def selects_and_posts(trace: Trace, server: Any) -> None:
    """Also posts to a service without spans, in one request of ten."""
    selects(trace, server)
    if trace.number % 10 == 0:
        trace.span(
            server, "work", "POST", 21, 24, "client", server__address="bank.example", http__method="POST"
        )


def selects_and_sends(trace: Trace, server: Any) -> None:
    selects(trace, server)
    if trace.number == 7:
        trace.span(server, "work", "audit", 21, 24, "producer")


def looks_inside(trace: Trace, server: Any) -> None:
    trace.span(server, "work", "getRights", 8, 9, "internal")
    trace.span(server, "work", "checkRights", 9, 10, "internal")


def connects_and_selects(trace: Trace, server: Any) -> None:
    trace.span(server, "work", "pg.connect", 8, 9, "client", **SQL)
    trace.span(server, "work", "BEGIN", 9, 9.5, "client", **SQL)
    trace.span(server, "work", "SELECT", 10, 19, "client", **SQL)
    trace.span(server, "work", "COMMIT", 20, 20.5, "client", **SQL)


def two_levels(trace: Trace, server: Any) -> None:
    _, inner = trace.call(server, "POST", "index", "POST /ask", 9, 25)
    trace.span(inner, "index", "SELECT", 10, 19, "client", **SQL)


def asks(name: str, **stated: Any) -> Callable[[Trace, Any], None]:
    def make(trace: Trace, server: Any) -> None:
        trace.span(server, "work", name, 9, 20, "client", **stated)

    return make


QUERY = {"graphql__operation__name": "GetX", "http__request__method": "POST"}


def lost_in_part(trace: Trace, server: Any) -> None:
    """A posted call whose own spans are lost in one request of five."""
    _, inner = trace.call(server, "POST", "index", "POST /ask", 9, 25)
    if trace.number % 5:
        trace.span(inner, "index", "SELECT", 10, 19, "client", **SQL)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("route", "below", "reads"),
    [
        ("POST /search", nothing, False),
        ("POST /search", selects, True),
        ("POST /search", connects_and_selects, True),
        ("POST /search", two_levels, True),
        ("POST /search", lost_in_part, True),
        ("POST /search", asks("GET", db__system="redis", db__statement="GET a\nSET b 1"), False),
        ("POST /search", asks("PIPELINE", db__system="redis", db__statement="GET a;MGET b c"), True),
        ("POST /search", asks("SELECT", **SQL, db__statement="SELECT 1; DROP TABLE t"), False),
        ("POST /search", asks("POST", graphql__operation__type="query", **QUERY), True),
        ("POST /search", asks("POST", graphql__operation__type="mutation", **QUERY), False),
        (
            "POST /search",
            asks("POST", rpc__service="DynamoDB", rpc__method="Query", http__method="POST"),
            True,
        ),
        ("approve", selects, True),
        ("approve", selects_and_posts, False),
        ("approve", looks_inside, False),
        ("GET /page", selects_and_posts, True),
        ("GET /page", selects_and_sends, False),
        ("GET /page", statement("INSERT INTO log VALUES (1)"), False),
        ("GET /page", statement("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x"), False),
        ("GET /page", statement("/* a */ UPDATE t SET a = 1", "pg.query"), False),
        ("POST /ids", statement("SELECT nextval('ids')"), False),
        ("POST /rows", statement("SELECT * FROM t FOR NO KEY UPDATE"), False),
    ],
)
def test_what_the_spans_below_say(
    form: str, route: str, below: Callable[[Trace, Any], None], reads: bool, tmp_path: Path
) -> None:
    profile = fitted(called(route, below), form, tmp_path)
    assert profile.stages[1].reissuable, "a GET"
    assert profile.stages[2].reissuable is reads, taken_for(profile)


@pytest.mark.parametrize("below", [selects_and_posts, looks_inside])
def test_without_kinds_names_of_functions_and_posts_say_nothing(
    below: Callable[[Trace, Any], None], tmp_path: Path
) -> None:
    spans = without_kinds(requests(called("approve", below), 100))
    assert not fit_profile([filed(tmp_path, spans, "jaeger")]).stages[2].reissuable


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("stated", "name", "reads"),
    [
        ({"graphql__operation__type": "mutation", "graphql__operation__name": "getX"}, "getX", False),
        (
            {"graphql__operation__type": "mutation", "graphql__operation__name": "getX"},
            "POST /graphql",
            False,
        ),
        ({"graphql__operation__type": "mutation"}, "POST /graphql", False),
        ({"graphql__operation__type": "query", "graphql__operation__name": "GetX"}, "POST /graphql", True),
        ({"graphql__operation__type": "query"}, "POST /graphql", True),
        ({"http__method": "POST"}, "/shop.Cart/GetCart", True),
        ({"http__method": "POST", "rpc__service": "shop.Cart", "rpc__method": "EmptyCart"}, "x", False),
        ({"http__request__method": "POST"}, "getPayment", False),
        ({"http__request__method": "GET"}, "payment", True),
    ],
)
def test_what_the_callee_says(
    form: str, stated: dict[str, Any], name: str, reads: bool, tmp_path: Path
) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "POST /do", 0, 30, "server")
        trace.call(root, "GET", "user", "GET /user", 1, 6)
        client = trace.span(root, "front", "call", 7, 27, "client")
        trace.span(client, "work", name, 7.1, 26.9, "server", **stated)

    profile = fitted(make, form, tmp_path)
    assert profile.stages[2].reissuable is reads, taken_for(profile)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [2, 10, 100])
def test_an_operation_that_is_posted_in_a_part_of_the_requests_is_a_write(
    form: str, share: int, tmp_path: Path
) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "POST /do", 0, 30, "server")
        trace.call(root, "GET", "user", "GET /user", 1, 6)
        method = "POST" if trace.number % share == 0 else "GET"
        client = trace.span(root, "front", "call", 7, 27, "client")
        trace.span(client, "work", "CartController.cart", 7.1, 26.9, "server", http__method=method)

    profile = fitted(make, form, tmp_path, 200)
    assert taken_for(profile)[1] == {"work:CartController.cart": "POST"}


@pytest.mark.parametrize("form", FORMS)
def test_a_read_that_writes_for_another_kind_of_requests_is_a_write(form: str, tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        home = trace.number % 3 > 0
        root = trace.span(None, "front", "GET /home" if home else "GET /offers", 0, 30, "server")
        _, server = trace.call(root, "GET", "user", "GET /user", 1, 16)
        if not home:
            trace.span(server, "user", "UPDATE seen", 2, 4, "client", **SQL)

    profile = fitted(make, form, tmp_path, 90, kind="home")
    assert taken_for(profile)[1] == {"user:user": "UPDATE seen"}


@pytest.mark.parametrize("depth", [1, 2])
def test_reads_and_writes_of_deeper_stages(depth: int, tmp_path: Path) -> None:
    def below(trace: Trace, server: Any) -> None:
        trace.call(server, "x", "store", "store.Store/GetRows", 9, 15)
        trace.call(server, "x", "store", "store.Store/ReadModifyWriteRow", 16, 20)

    profile = fitted(called("GET /page", below), "otlp", tmp_path, depth=depth)
    reads, writes = taken_for(profile)
    assert reads == ["user:user", *(["store:GetRows"] if depth == 2 else [])]
    assert any("ReadModifyWriteRow" in why for why in writes.values())

"""Requests whose parents nobody exported, connections that last, and what tells kinds of requests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.otel.fit.fit import fit_profile, fit_profiles, list_kinds
from kwiken.otel.fit.sampled_requests import slow_were_chosen
from kwiken.tail.diagnosis.explanation import explain
from tests.support.otel.field import FORMS, Trace, filed, requests
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import Span

SEEDS: Final = (5201, 5202, 5203, 5204)  # fixed before the first run
MISSING: Final = 0xFFFF  # id of a span that nobody exports


def lost(span: Span) -> Span:
    """Let the parent of a span be one that nobody exports."""
    span.parent = MISSING
    return span


@pytest.mark.parametrize("seed", SEEDS)
def test_functions_behind_gateways_are_one_request(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    form, chain = rng.choice([form for form in FORMS if form != "zipkin"]), rng.randint(2, 3)
    hosts = rng.choice(("{}.execute-api.example", "gw.example", "{}"))
    part = rng.choice((1.0, 0.5))  # of the requests whose first parent is missing too

    def make(trace: Trace) -> None:
        above, start, end = None, 0.0, 60.0
        for level in range(chain):
            served = trace.span(above, f"fn-{level}", f"GET /p{level}", start, end, "server")
            if level or trace.rng.random() < part:
                lost(served)
            start, end = start + 2, end - 3
            if level < chain - 1:
                host = hosts.format(f"fn-{level + 1}")
                url = f"https://{host}/prod/p{level + 1}"
                above = trace.span(
                    served, f"fn-{level}", "GET", start, end, "client", url__full=url, server__address=host
                )
                start, end = start + 1.5, end - 1.5

    profile = fit_profile([filed(tmp_path, requests(make, 60, seed), form)], depth=3)
    assert profile.requests == 60
    assert profile.origin is not None
    assert profile.origin.kind == "fn-0:GET /p0"
    assert set(profile.service_names) == {f"fn-{level}" for level in range(chain)}
    assert set(profile.link_names) == {(f"fn-{n}", f"fn-{n + 1}") for n in range(chain - 1)}
    assert profile.link_ms is not None
    np.testing.assert_allclose(profile.link_ms, 3.0, atol=0.01)


def test_pieces_that_fit_no_client_name_the_roots_to_give(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        lost(trace.span(None, "a", "GET /a", 0, 10, "server"))
        lost(trace.span(None, "b", "GET /b", 20, 30, "server"))

    path = filed(tmp_path, requests(make, 20), "otlp")
    with pytest.raises(InputError, match=r"--root 'a:GET /a' \(20\), --root 'b:GET /b' \(20\)"):
        fit_profile([path])
    assert len(list_kinds([path], root="a:GET /a").kinds) == 1


def test_the_case_of_functions_behind_a_gateway() -> None:
    profile = fit_profile([field_file("G01")])
    assert profile.requests == 800
    assert [stage.match.service for stage in profile.stages] == ["orders-fn", "stock-fn"]
    np.testing.assert_allclose(profile.stages[0].latency_ms, 10.0, atol=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_connections_and_loops_name_the_part_that_is_the_request(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    form, repeats = rng.choice(FORMS), rng.randint(12, 60)
    root, part = rng.choice(
        (("GET /ws", "ws.message say"), ("poll orders", "handle order"), ("cron tick", "job step"))
    )

    def make(trace: Trace) -> None:
        top = trace.span(None, "chat", root, 0, repeats * 30, "server")
        for number in range(repeats):
            at = number * 30 + 1
            took = trace.rng.uniform(1, 2)
            inner = trace.span(top, "chat", part, at, at + took + 0.4)
            trace.call(inner, "GET", "profile", "GET /user", at + 0.1, at + 0.1 + took)

    fits = fit_profiles([filed(tmp_path, requests(make, 25, seed), form)])
    assert set(fits.repeated.values()) == {f"chat:{part}"}
    own, loop = fits.profiles[0].stages
    assert (own.own_time, loop.match.service, loop.reissuable) == (True, "profile", False)


def test_a_request_that_works_all_the_time_is_no_connection(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        top = trace.span(None, "shop", "GET /rows", 0, 300, "server")
        for number in range(20):
            trace.call(top, "GET", "rows", "GET /row", number * 14 + 1, number * 14 + 14)

    assert not fit_profiles([filed(tmp_path, requests(make, 30), "otlp")]).repeated


def test_the_case_of_websockets() -> None:
    fits = fit_profiles([field_file("G02")])
    assert fits.repeated == {"chat:GET /ws": "chat:ws.message say"}
    assert len(fits.profiles[0].stages) == 2, "the calls of all messages are one loop"
    for slow in explain(fits.profiles[0]).slow:
        assert slow.first is None
        assert all(abs(part.share) <= 1 for part in slow.services)
    said = fit_profile([field_file("G02")], root="ws.message say")
    assert (said.requests, round(float(np.percentile(said.latency_ms, 99)), 1)) == (1000, 93.2)


OPERATIONS: Final = {
    "graphql": ("POST /graphql", "graphql.execute", {"graphql__operation__type": "query"}, "graphql__operation__name"),
    "json-rpc": ("POST /rpc", "dispatch", {"rpc__system": "jsonrpc"}, "rpc__method"),
    "soap": ("POST /ws/Orders", "soap.handle", {}, "soap__action"),
    "wildcard": ("/*", "execute", {"graphql__operation__type": "mutation"}, "graphql__operation__name"),
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", OPERATIONS)
def test_an_operation_that_a_child_names_tells_the_kind(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{kind} {seed}")
    root, name, stated, key = OPERATIONS[kind]
    form, nested = rng.choice(FORMS), rng.random() < 0.5

    def make(trace: Trace) -> None:
        long = trace.rng.random() < 0.4
        end = trace.rng.uniform(80, 90) if long else trace.rng.uniform(10, 20)
        top = trace.span(None, "api", root, 0, end, "server")
        above = trace.span(top, "api", "middleware", 0.2, end - 0.2) if nested else top
        operation = "ListAll" if long else "GetOne"
        inner = trace.span(above, "api", name, 0.5, end - 0.5, "internal", **stated, **{key: operation})
        trace.call(inner, "GET", "db-api", "GET /rows", 1, end - 1)

    fits = fit_profiles([filed(tmp_path, requests(make, 200, seed), form)], every=True)
    assert len(fits.kinds) == 2
    assert {kind.label.rsplit(" ", 1)[-1].rsplit(":", 1)[-1] for kind in fits.kinds} == {"ListAll", "GetOne"}
    assert not any("warning_slow_requests_chosen" in profile.counts for profile in fits.profiles)


def test_a_step_that_two_kinds_make_is_no_samplers(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        long = trace.number % 5 < 2
        end = trace.rng.uniform(100, 104) if long else trace.rng.uniform(10, 20)
        top = trace.span(None, "api", "POST /x", 0, end, "server", tenant="b" if long else "a")
        trace.call(top, "GET", "db", "GET /rows", 1, end - 1)

    path = filed(tmp_path, requests(make, 300), "otlp")
    plain = fit_profile([path])
    assert slow_were_chosen(plain.latency_ms)
    assert "warning_slow_requests_chosen" in plain.counts
    assert "warning_slow_requests_chosen" not in fit_profile([path], kind_by="tenant").counts


def test_the_case_of_graphql() -> None:
    kinds = {kind.label: kind.requests for kind in list_kinds([field_file("G03")]).kinds}
    assert kinds == {"gql:query ListBooks": 200, "gql:query GetBook": 100}


CONVENTIONS: Final = (
    ("/page", {"http__method": "GET", "http__route": "/page"}),
    ("GET /page", {"http__request__method": "GET", "http__route": "/page"}),
    ("HTTP GET /page", {"http__method": "GET", "http__target": "/page"}),
    ("HTTP GET", {"http__method": "GET", "http__route": "/page"}),
    ("GET", {"http__request__method": "GET", "url__path": "/page"}),
    ("/page", {"http__request__method": "GET"}),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_route_is_one_kind_in_conventions_old_and_new(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    form, used = rng.choice(FORMS), rng.sample(CONVENTIONS, 3)

    def make(trace: Trace) -> None:
        name, stated = trace.rng.choice(used)
        root = trace.span(None, "web", name, 0, 20, "server", **stated)
        trace.call(root, "GET", "items", "GET /items", 1, 12)

    kinds = list_kinds([filed(tmp_path, requests(make, 90, seed), form)]).kinds
    assert [(kind.label, kind.requests) for kind in kinds] == [("web:GET /page", 90)]


def test_methods_of_rpc_get_no_method_of_http(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "/shop.Cart/GetCart", 0, 20, "server", http__method="POST")
        trace.call(root, "GET", "items", "GET /items", 1, 12)

    (kind,) = list_kinds([filed(tmp_path, requests(make, 30), "otlp")]).kinds
    assert kind.label == "web:/shop.Cart/GetCart"


def test_the_case_of_a_migration() -> None:
    kinds = list_kinds([field_file("G08")]).kinds
    assert [(kind.label, kind.requests) for kind in kinds] == [("web:GET /page", 800)]


def test_the_case_of_zipkins_lower_case() -> None:
    fits = fit_profiles([field_file("G22")])
    assert fits.kinds[0].label == "front:GET /home"
    user = next(stage for stage in fits.profiles[0].stages if stage.name == "user:user")
    assert (user.match.method, user.match.operation, user.reissuable) == ("GET", "GET /user", True)

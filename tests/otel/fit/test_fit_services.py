"""Fit of services as stages: calls from service to service, gateways, kinds of requests, writes, other days."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.idempotence import taken_for
from kwiken.model.profile.profile import OWN_TIME, Profile
from kwiken.otel.fit.fit import Fits, fit_profile, fit_profiles, list_kinds
from kwiken.otel.fit.foreign.foreign import fit_foreign
from kwiken.otel.trace.request_kinds import is_route
from kwiken.otel.trace.requests import choose
from tests.otel.trace.test_cleaning import forest_of
from tests.support.otel.span_trees import MS, T0, Span, jaeger_json, otlp_lines, write
from tests.support.runtime.gateway_traces import GATEWAY, Call, Request, cart_request, shop_request, spans_of

PAGE = ["shop-service (own time)", "price-service:prices", "stock-service:search", "stock-service:search#2"]


def traces(tmp_path: Path, spans: list[Span], name: str = "traces.json") -> Path:
    return write(tmp_path / name, jaeger_json(spans))


def shop(requests: int = 60) -> list[Span]:
    return spans_of([shop_request(number) for number in range(requests)])


def names(profile: Profile) -> list[str]:
    return [stage.name for stage in profile.stages]


def replayed(profile: Profile) -> np.ndarray:
    return end_to_end(profile.stages, {s.name: s.latency_ms for s in profile.stages})


@pytest.mark.parametrize("form", [jaeger_json, otlp_lines])
def test_stages_are_the_calls_of_the_first_service_behind_the_gateway(form: object, tmp_path: Path) -> None:
    profile = fit_profile([write(tmp_path / "a.json", form(shop()))])  # type: ignore[operator]
    assert names(profile) == [*PAGE, "visit-service:visits"]
    assert profile.service == "shop-service"
    assert profile.origin is not None
    assert (profile.origin.kind, profile.origin.stages) == ("shop-service:/api/v1/shop/page", "services")
    assert [stage.after for stage in profile.stages[1:]] == [(name,) for name in names(profile)[:-1]]
    price = profile.stage("price-service:prices")
    assert (price.match.service, price.match.operation) == ("price-service", "/api/v1/prices/{id}")
    assert price.match.method == "GET"
    np.testing.assert_allclose(price.calls_ms[:7, 0], 20 + np.arange(7) % 7)
    assert profile.stage("stock-service:search#2").visit_share == pytest.approx(1 / 3)
    np.testing.assert_allclose(replayed(profile), profile.latency_ms)
    assert profile_from_json(profile_to_json(profile)).digest == profile.digest


def test_calls_are_told_apart_by_name_before_position(tmp_path: Path) -> None:
    """The third call is one service's in some requests and another's in the others."""

    def request(number: int) -> Request:
        user = Call("user-service", "/users/{id}", 10 + number % 3)
        insure = Call("insurance-service", "/insurances/{kind}", 15)
        first = [Call("price-service", "/prices", 10), Call("stock-service", "/stock", 10)]
        calls = [*first, insure, user] if number % 2 else [*first, user]
        return Request(Call("shop-service", "/shop/buy", 60, calls=calls))

    profile = fit_profile([traces(tmp_path, spans_of([request(n) for n in range(60)]))])
    user, insure = profile.stage("user-service:users"), profile.stage("insurance-service:insurances")
    assert (user.visit_share, insure.visit_share) == (1.0, 0.5)
    np.testing.assert_allclose(user.calls_ms[:, 0], 10 + np.arange(60) % 3)


def test_a_filter_beside_the_call_that_it_wraps_is_no_stage_even_of_spans(tmp_path: Path) -> None:
    path = traces(tmp_path, shop())
    inner = fit_profile([path], spans=True, depth=3)
    assert inner.origin is not None
    assert inner.origin.stages == "spans"
    assert not any("Filtering" in name for name in names(inner))
    assert any("SELECT" in name or "findAll" in name for name in names(inner)), "spans give the inner view"


def test_error_spans_in_a_few_requests_do_not_stop_the_descent(tmp_path: Path) -> None:
    requests = [shop_request(number) for number in range(60)]
    requests[7].error_span = True
    path = traces(tmp_path, spans_of(requests))
    assert names(fit_profile([path]))[:4] == PAGE
    twice = spans_of([shop_request(number) for number in range(60)])
    start = T0 + 5 * 100_000 * MS
    twice.append(Span(5, 900, 1, "audit-service", "/audit", start + 2 * MS, start + 3 * MS))
    profile = fit_profile([traces(tmp_path, twice, "b.json")])
    assert names(profile)[:4] == PAGE, "one request in sixty made a second call"
    assert profile.requests == 60


def test_a_service_that_works_itself_most_of_the_time_is_the_stage(tmp_path: Path) -> None:
    def request(number: int) -> Request:
        code = Call("code-service", "/codes/{id}", 10)
        return Request(Call("login-service", "/users/login", 100 + number % 9, method="POST", calls=[code]))

    profile = fit_profile([traces(tmp_path, spans_of([request(n) for n in range(40)]))])
    assert names(profile) == [f"{GATEWAY}{OWN_TIME}", "login-service:login"]
    assert profile.service == "login-service"


def test_spans_inside_one_service_are_stages_where_no_other_service_is_called(tmp_path: Path) -> None:
    spans = [
        span
        for n in range(1, 31)
        for span in (
            Span(n, 1, 0, "mono", "buy", T0 + n * 100 * MS, T0 + n * 100 * MS + 50 * MS),
            Span(n, 2, 1, "mono", "load", T0 + n * 100 * MS + MS, T0 + n * 100 * MS + 20 * MS),
            Span(n, 3, 1, "mono", "draw", T0 + n * 100 * MS + 21 * MS, T0 + n * 100 * MS + 40 * MS),
        )
    ]
    profile = fit_profile([traces(tmp_path, spans)])
    assert names(profile) == [f"mono:buy{OWN_TIME}", "mono:load", "mono:draw"]
    assert profile.origin is not None
    assert profile.origin.stages == "spans"
    assert profile.counts["requests_of_one_service"] == 30
    assert profile.service_names == ("mono",)


def test_an_ignored_operation_leaves_its_calls_to_its_caller(tmp_path: Path) -> None:
    """A sidecar's spans between caller and callee would be stages; ignored, the callee is."""
    spans: list[Span] = []
    for n in range(1, 41):
        at = T0 + n * 1000 * MS
        spans += [
            Span(n, 1, 0, "web", "/home", at, at + 60 * MS),
            Span(n, 2, 1, "sidecar", "egress", at + 5 * MS, at + 25 * MS),
            Span(n, 3, 2, "price", "/prices", at + 6 * MS, at + 24 * MS),
            Span(n, 4, 1, "sidecar", "egress", at + 30 * MS, at + 50 * MS),
            Span(n, 5, 4, "stock", "/stock", at + 31 * MS, at + 49 * MS),
        ]
    path = traces(tmp_path, spans)
    assert names(fit_profile([path]))[1:] == ["sidecar:egress", "sidecar:egress#2"]
    for pattern in ("egress", "sidecar:*"):
        profile = fit_profile([path], ignore=(pattern,))
        assert names(profile)[1:] == ["price:prices", "stock:stock"]
        assert profile.counts["spans_ignored"] == 80
    with pytest.raises(InputError, match="ignore: no operation matches 'ingress'"):
        fit_profile([path], ignore=("ingress",))


def kinds_of(tmp_path: Path) -> tuple[Path, Fits]:
    requests = [shop_request(n) if n % 3 else cart_request(n) for n in range(90)]
    path = traces(tmp_path, spans_of(requests))
    return path, list_kinds([path])


def test_kinds_are_told_apart_by_the_first_route_behind_the_gateway(tmp_path: Path) -> None:
    path, listed = kinds_of(tmp_path)
    assert listed.profiles == ()
    assert dict(listed.roots) == {f"{GATEWAY}:/*": 90}
    page, cart = listed.kinds
    assert (page.name, page.requests, page.stages) == ("shop-service:shop/page", 60, 4)
    assert (cart.name, cart.requests, cart.stages) == ("cart-service:cart/add", 30, 3)
    assert page.label == "shop-service:/api/v1/shop/page"
    profile = fit_profile([path])
    assert (profile.service, profile.counts["requests_of_other_kinds"]) == ("shop-service", 30)
    assert page.p99_ms == pytest.approx(np.percentile(profile.latency_ms, 99))
    assert page.p50_ms == pytest.approx(np.percentile(profile.latency_ms, 50))
    for asked in ("cart-service:cart/add", "/api/v1/cart/add", "cart/add", "add", "CART"):
        assert fit_profile([path], kind=asked).service == "cart-service"
    both = fit_profiles([path], every=True)
    assert [profile.service for profile in both.profiles] == ["shop-service", "cart-service"]
    mixed = fit_profile([path], kind_by="root")
    assert mixed.requests == 90
    assert mixed.class_names == ("shop-service:/api/v1/shop/page", "cart-service:/api/v1/cart/add")


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path, _ = kinds_of(tmp_path)
    with pytest.raises(InputError, match=r"no kind .* named 'cart/ad2'; nearest: cart-service:cart/add"):
        fit_profile([path], kind="cart/ad2")
    with pytest.raises(InputError, match="'service' could be any of shop-service:shop/page, cart-service"):
        fit_profile([path], kind="service")
    with pytest.raises(InputError, match=r"'/api/v1/shop/pag'; the nearest names are: /api/v1/shop/page"):
        fit_profile([path], root="/api/v1/shop/pag")
    with pytest.raises(InputError, match="of service 'shop'; the nearest names are: shop-service"):
        fit_profile([path], service="shop")


@pytest.mark.parametrize(
    ("operation", "route"),
    [
        ("/api/v1/cart", True),
        ("GET /cart/{id}", True),
        ("shop.Search/Lookup", True),
        ("/*", False),
        ("/api/*", False),
        ("HTTP GET", False),
        ("GET", False),
        ("/", False),
        ("/{anything}", False),
        ("handle", False),
    ],
)
def test_what_names_a_route(operation: str, route: bool) -> None:
    assert is_route(operation) is route


def test_writes_get_no_copies_whatever_their_method(tmp_path: Path) -> None:
    page = fit_profile([traces(tmp_path, shop())])
    reads, writes = taken_for(page)
    assert reads == ["price-service:prices", "stock-service:search", "stock-service:search#2"]
    assert writes == {"visit-service:visits": "INSERT visits"}
    assert not page.stage("visit-service:visits").reissuable

    def request(number: int) -> Request:
        calls = [
            Call("a", "/collect/{id}", 10, inside=("UPDATE orders",)),  # a GET that writes
            Call("b", "/search", 10, method="POST"),  # nothing was seen below it
            Call("c", "/items/{id}", 10, method="DELETE"),
            Call("d", "/items", 10, inside=("SELECT items", "Transaction.commit")),
        ]
        return Request(Call("shop", "/buy", 60, calls=calls))

    profile = fit_profile([traces(tmp_path, spans_of([request(n) for n in range(40)]), "b.json")])
    assert taken_for(profile) == (
        ["d:items"],
        {"a:collect": "UPDATE orders", "b:search": "POST", "c:items": "DELETE"},
    )


def test_a_consumer_that_nobody_waits_for_is_no_stage_and_sql_is_the_services_own_work(
    tmp_path: Path,
) -> None:
    spans = shop()
    for request in range(1, 61):
        last = max(span.end for span in spans if span.trace == request)
        spans.append(Span(request, 800, 5, "mail-service", "mail process", last + MS, last + 90 * MS))
    profile = fit_profile([traces(tmp_path, spans)])
    assert not any("mail" in name or "SELECT" in name for name in names(profile))
    assert "mail-service" not in profile.service_names


def test_another_day_is_fitted_into_the_stages_of_the_first(tmp_path: Path) -> None:
    first = fit_profile([traces(tmp_path, shop())])

    def later(number: int) -> Request:
        request = shop_request(number)
        extra = Call("ads-service", "/ads", 10)
        calls = [*request.call.calls, extra] if number % 2 else list(request.call.calls)[1:]
        return Request(Call(request.call.service, request.call.route, 500, calls=calls))

    spans = spans_of([later(number) for number in range(60)]) + spans_of(
        [cart_request(n) for n in range(99)], 99
    )
    path = traces(tmp_path, spans, "later.json")
    assert fit_profile([path]).service == "cart-service", "the most frequent kind is another on that day"
    second = fit_profile([path], like=first)
    assert [(s.name, s.after, s.reissuable, s.match) for s in second.stages] == [
        (s.name, s.after, s.reissuable, s.match) for s in first.stages
    ]
    assert second.requests == 60
    assert second.counts["calls_not_in_model"] == 30
    assert second.stage("price-service:prices").visit_share == 0.5
    np.testing.assert_allclose(replayed(second), second.latency_ms)
    same = fit_profile([traces(tmp_path, shop())], like=first)
    assert same.digest == first.digest


def test_what_cannot_be_a_model_is_refused(tmp_path: Path) -> None:
    path = traces(tmp_path, shop())
    deep = fit_profile([path], depth=2)
    with pytest.raises(
        InputError, match=r"like: has nested stages \(depth 2\).*fit the model anew with depth 1"
    ):
        fit_profile([path], like=deep)
    cart = fit_profile([traces(tmp_path, spans_of([cart_request(n) for n in range(30)]), "c.json")])
    other = r"like: is a profile of 'cart-service:/api/v1/cart/add', and the traces hold no such request; they hold "
    with pytest.raises(InputError, match=other):
        fit_profile([path], like=cart)


def test_kinds_of_a_single_request_each_are_said_to_come_of_identifiers(tmp_path: Path) -> None:
    whole = jaeger_json(spans_of([cart_request(n) for n in range(30)]))
    document = json.loads(whole)
    for number, trace in enumerate(document["data"]):
        for span in trace["spans"]:
            name = f"cart/{chr(97 + number % 26)}{'ab'[number // 26]}x"
            span["operationName"] = re.sub(r"cart/add$", name, span["operationName"])
    assert list_kinds([write(tmp_path / "ids.json", json.dumps(document))]).scattered
    numbers = re.sub(r"cart/(\w)(\w)x", lambda found: f"cart/{ord(found[1])}", json.dumps(document))
    assert not list_kinds([write(tmp_path / "numbers.json", numbers)]).scattered
    assert not list_kinds([write(tmp_path / "routes.json", whole)]).scattered


Times = dict[str | tuple[str, str], float]


def by_hand(spans: list[Span]) -> dict[int, Times]:
    """Time of each service and link in each request, by the definition: backwards from each span's end."""
    below: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in spans:
        below[span.trace, span.parent].append(span)
    found: dict[int, Times] = {}

    by_id = {(span.trace, span.id): span for span in spans}

    def owner(span: Span) -> str | tuple[str, str]:
        """Service of the span; caller and callee where it is the client's side of a call."""
        above, inner = by_id.get((span.trace, span.parent)), below[span.trace, span.id]
        client = above is not None and above.service == span.service and len(inner) == 1
        return (
            (span.service, inner[0].service) if client and inner[0].service != span.service else span.service
        )

    def walk(span: Span, end: int, times: Times) -> None:
        left, until = 0, end
        for child in sorted(below[span.trace, span.id], key=lambda each: (-each.end, each.start)):
            if child.end <= until:
                left += until - child.end
                walk(child, child.end, times)
                until = child.start
        times[owner(span)] += (left + until - span.start) / MS

    for root in (span for span in spans if not span.parent):
        found[root.trace] = defaultdict(float)
        walk(root, root.end, found[root.trace])
    return found


@given(st.integers(0, 2**32))
def test_times_of_services_are_those_of_the_raw_spans_and_sum_to_the_latency(seed: int) -> None:
    rng = random.Random(seed)
    spans: list[Span] = []

    def grow(trace: int, parent: int, caller: str, start: int, end: int, depth: int) -> None:
        now = start
        for _ in range(rng.randint(0, 3) if depth else 2):
            room = (end - now) // 3
            if room < 10 * MS:
                return
            begin = now + rng.randint(1, room)
            until = begin + rng.randint(5 * MS, 2 * room - 1)
            service = rng.choice("abcd")
            number = len(spans) + 1
            spans.append(Span(trace, number, parent, service, f"/{service}/x", begin, until))
            if depth < 3:
                grow(trace, number, service, begin, until, depth + 1)
            now = until

    for trace in range(1, 9):
        start = T0 + trace * 10_000 * MS
        spans.append(Span(trace, len(spans) + 1, 0, "web", "/home/page", start, start + 5_000 * MS))
        grow(trace, len(spans), "web", start, start + 5_000 * MS, 0)
    forest = forest_of(spans)
    try:
        profile = fit_foreign(forest, choose(forest))
    except InputError:
        return
    assert profile.service_ms is not None
    links = np.zeros((profile.requests, 0)) if profile.link_ms is None else profile.link_ms
    both = np.hstack([profile.service_ms, links])
    np.testing.assert_allclose(both.sum(axis=1), profile.latency_ms)
    for row, times in zip(both, by_hand(spans).values(), strict=True):
        told = dict(zip((*profile.service_names, *profile.link_names), row.tolist(), strict=True))
        assert {name: ms for name, ms in told.items() if ms > 0} == pytest.approx(
            {name: ms for name, ms in times.items() if ms > 0}
        )

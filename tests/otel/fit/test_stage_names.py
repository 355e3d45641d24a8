"""Names of stages: short, unique, and from the service and the route that do the work."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kwiken.otel.fit.foreign.stage_names import MAX_NAME, fitted, short_ends, short_names

WORDS = st.text("ab/{}*: ._", max_size=12)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("/api/v1/seatservice/seats/left_tickets", "s:left_tickets"),
        ("/api/v1/travelservice/trips/left", "s:trips/left"),
        ("/api/v1/users/id/{userId}", "s:users/id"),
        ("GET /cart", "s:cart"),
        ("HTTP POST /cart/:id/items", "s:items"),
        ("shop.Search/Lookup", "s:Lookup"),
        ("compose_text_server", "s:compose_text_server"),
        ("SELECT orders", "s:SELECT orders"),
        ("/*", "s:*"),
        ("/{id}", "s:{id}"),
        ("/", "s:/"),
        ("", "s:(no name)"),
    ],
)
def test_a_route_is_named_by_its_end(operation: str, name: str) -> None:
    assert short_names([("s", operation)]) == {("s", operation): name}


def test_routes_that_end_alike_take_more_of_the_route() -> None:
    routes = ["/api/order", "/api/order/{id}", "/api/old/order", "/api/order/status/{id}"]
    names = short_names([("s", route) for route in routes] + [("t", "/api/order")])
    assert names["t", "/api/order"] == "t:order"
    assert names["s", "/api/order/status/{id}"] == "s:status"
    assert len(set(names.values())) == 5
    assert names["s", "/api/order/{id}"] == "s:order/{id}"


@given(st.lists(st.tuples(st.sampled_from("st"), WORDS), max_size=12))
def test_names_of_different_operations_differ(pairs: list[tuple[str, str]]) -> None:
    names = short_names(pairs)
    assert set(names) == set(pairs)
    # An operation without a name and one that is called so cannot be told apart.
    assert len(set(names.values())) == len(set(pairs))


@given(st.lists(st.tuples(st.text("abc:/", max_size=90), st.sampled_from(["", " (own time)"])), unique=True))
def test_fitted_names_are_short_and_unique(pairs: list[tuple[str, str]]) -> None:
    names = fitted([name for name, _ in pairs], [suffix for _, suffix in pairs])
    assert len(set(names)) == len(pairs)
    for (name, suffix), short in zip(pairs, names, strict=True):
        assert len(short) <= MAX_NAME
        assert short.endswith(suffix)
        if len(name + suffix) <= MAX_NAME:
            assert short == name + suffix


def test_a_long_name_keeps_the_start_of_its_route() -> None:
    (name,) = fitted(["user-timeline-service-of-the-shop:write_user_timeline_server"], [""])
    assert name == "user-timeline-s..:write_user_timeline_server"


def test_a_kind_may_be_asked_for_by_any_end_of_its_route() -> None:
    ends = short_ends("cart-service:/api/v1/cart/{id}/add")
    assert {"add", "cart/{id}/add", "/api/v1/cart/{id}/add", "cart-service:cart/add"} <= ends

"""Shapes of services that tracers write in many ways: who is to blame, and which calls may be copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import FORMS, Trace, blamed, excess_ms, filed, requests

SQL: dict[str, Any] = {"db__system": "postgresql"}
Make = Callable[[Trace], None]


def about(trace: Trace, ms: float) -> float:
    return ms * trace.rng.lognormvariate(0, 0.3)


def at_times(trace: Trace, share: float, ms: float) -> float:
    return ms if trace.rng.random() < share else 0.0


def batch_consumer(trace: Trace) -> None:
    """Works off messages, and asks a service for each batch."""
    took = about(trace, 6) + at_times(trace, 0.05, 70)
    batch = {"messaging__system": "kafka", "messaging__operation__type": "process"}
    root = trace.span(None, "worker", "orders process", 0, took + 9, "consumer", **batch)
    trace.call(root, "GET", "stock", "GET /stock/{id}", 1, 1 + took)
    trace.span(
        root,
        "worker",
        "INSERT",
        2 + took,
        6 + took,
        "client",
        **SQL,
        db__statement="INSERT INTO o VALUES (1)",
    )


def told_at_depth_three(trace: Trace) -> None:
    """A service three calls down tells another one, in 30% of the requests, and does not wait."""
    took = about(trace, 4) + at_times(trace, 0.05, 60)
    end = 11 + took
    root = trace.span(None, "front", "GET /home", 0, end + 2, "server")
    _, middle = trace.call(root, "GET", "middle", "GET /middle", 1, end + 1)
    _, back = trace.call(middle, "GET", "back", "GET /back", 2, end)
    trace.call(back, "GET", "store", "GET /store", 3, 3 + took)
    if trace.rng.random() < 0.3:
        trace.call(back, "POST", "audit", "POST /audit", 3 + took, 403 + took)


def skewed_hosts(trace: Trace) -> None:
    """One callee's clock is ahead by more than most calls take, another's is behind."""
    slow, other = about(trace, 6) + at_times(trace, 0.05, 50), about(trace, 5)
    root = trace.span(None, "front", "GET /home", 0, 4 + slow + other, "server")
    for name, begin, took, skew in (("ahead", 1, slow, 37), ("behind", 2 + slow, other, -120)):
        client = trace.span(root, "front", "GET", begin, begin + took, "client")
        at = begin + 0.2 + skew
        trace.span(client, name, f"GET /{name}", at, at + took - 0.4, "server")


def servers_lost_in_part(trace: Trace) -> None:
    slow, other = about(trace, 6) + at_times(trace, 0.05, 90), about(trace, 5)
    root = trace.span(None, "front", "GET /home", 0, 4 + slow + other, "server")
    for name, begin, took in (("a", 1, slow), ("b", 2 + slow, other)):
        client = trace.span(root, "front", "GET", begin, begin + took, "client", peer__service=name)
        if trace.rng.random() < 0.5:
            trace.span(client, name, f"GET /{name}", begin + 0.2, begin + took - 0.2, "server")


def three_attempts(trace: Trace) -> None:
    """A caller that hedges after 20 ms, and again after 40."""
    starts, took = [1.0], [about(trace, 8) + at_times(trace, 0.08, 100)]
    while len(starts) < 3 and min(a + b for a, b in zip(starts, took, strict=True)) > starts[-1] + 20:
        starts.append(starts[-1] + 20)
        took.append(about(trace, 8) + at_times(trace, 0.08, 100))
    end = min(a + b for a, b in zip(starts, took, strict=True))
    root = trace.span(None, "front", "GET /q", 0, end + 2, "server")
    for begin in starts:
        client = trace.span(root, "front", "idx.Search/Find", begin, end, "client")
        trace.span(client, "index", "idx.Search/Find", begin + 0.2, end - 0.1, "server")


def streams(trace: Trace) -> None:
    """A gRPC call that streams: one span on either side, with a span inside for each message."""
    messages = [about(trace, 3) for _ in range(trace.rng.randint(3, 8))]
    messages[-1] += at_times(trace, 0.05, 80)
    end = 2 + sum(messages)
    root = trace.span(None, "front", "GET /feed", 0, end + 2, "server")
    stated = {"rpc__system": "grpc", "rpc__service": "feed.Feed", "rpc__method": "ListItems"}
    client = trace.span(root, "front", "feed.Feed/ListItems", 1, end + 1, "client", **stated)
    server = trace.span(client, "feed", "feed.Feed/ListItems", 1.2, end + 0.8, "server", **stated)
    begin = 1.5
    for took in messages:
        trace.span(server, "feed", "message sent", begin, begin + 0.9 * took, "internal")
        begin += 0.98 * took


def sidecars(trace: Trace) -> None:
    """Spans of proxies between the client's and the server's."""
    took = about(trace, 6) + at_times(trace, 0.05, 80)
    end = took + 8
    root = trace.span(None, "front", "GET /home", 0, end, "server")
    above = trace.span(root, "front", "GET", 1, end - 1, "client")
    host = "reviews.default.svc.cluster.local:9080/*"
    for service, kind, bound in (
        ("front.default", "client", "outbound"),
        ("reviews.default", "server", "inbound"),
    ):
        cluster = f"{bound}|9080||reviews.default.svc.cluster.local"
        stated = {
            "http__method": "GET",
            "http__url": "http://reviews:9080/reviews/0",
            "upstream_cluster": cluster,
        }
        above = trace.span(
            above, service, host, (above.start - root.start) / 1e6 + 0.2, (above.end - root.start) / 1e6 - 0.2,
            kind, **stated,
        )  # fmt: skip
    server = trace.span(above, "reviews", "GET /reviews/{id}", 1.6, end - 1.6, "server")
    trace.call(server, "GET", "ratings", "GET /ratings/{id}", 2, 2 + took)


def own_pause(trace: Trace) -> None:
    """The service itself pauses between two healthy calls."""
    pause, a, b = at_times(trace, 0.05, 120), about(trace, 5), about(trace, 4)
    root = trace.span(None, "front", "GET /home", 0, 4 + a + b + pause, "server")
    trace.call(root, "GET", "a", "GET /a", 1, 1 + a)
    trace.call(root, "GET", "b", "GET /b", 2 + a + pause, 2 + a + pause + b)


def slow_write(trace: Trace) -> None:
    pay, price = about(trace, 6) + at_times(trace, 0.05, 90), about(trace, 5)
    root = trace.span(None, "front", "POST /order", 0, 4 + pay + price, "server")
    trace.call(root, "x", "price", "price.Price/GetPrice", 1, 1 + price)
    trace.call(root, "x", "pay", "pay.Pay/SettleInvoice", 2 + price, 2 + price + pay)


def fills_a_cache(trace: Trace) -> None:
    """Reads a cache, and where that has nothing reads a database and fills the cache."""
    took = at_times(trace, 0.1, 20 + about(trace, 5))
    root = trace.span(None, "front", "GET /i", 0, 8 + took, "server")
    _, server = trace.call(root, "GET", "items", "GET /items/{id}", 1, 7 + took)
    trace.span(server, "items", "GET", 1.5, 2, "client", db__system="redis", db__statement="GET item:17")
    if took:
        text = "SELECT * FROM items WHERE id = 17"
        trace.span(server, "items", "SELECT", 2.2, 1.8 + took, "client", **SQL, db__statement=text)
        put = {"db__system": "redis", "db__statement": "SETEX item:17 60 x"}
        trace.span(server, "items", "SETEX", 1.9 + took, 2.1 + took, "client", **put)


def upserts(trace: Trace) -> None:
    took = about(trace, 5) + at_times(trace, 0.05, 70)
    root = trace.span(None, "front", "GET /v", 0, took + 5, "server")
    _, server = trace.call(root, "GET", "views", "GET /views", 1, took + 4)
    stated = {"db__system": "mongodb", "db__operation": "findAndModify", "db__mongodb__collection": "views"}
    trace.span(server, "views", "views.findAndModify", 2, 2 + took, "client", **stated)


def gives_up(trace: Trace) -> None:
    """Waits for advertisements for 50 ms at most, and answers without them."""
    main, ads = about(trace, 10), about(trace, 8) + at_times(trace, 0.1, 200)
    end = 1 + max(main, min(ads, 50))
    root = trace.span(None, "front", "GET /p", 0, end + 2, "server")
    trace.call(root, "GET", "main", "GET /main", 1, 1 + main)
    trace.call(root, "GET", "ads", "GET /ads", 1, 1 + ads)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("make", "to_blame", "reads"),
    [
        (batch_consumer, "stock", {"stock:stock"}),
        (told_at_depth_three, "store", {"back:back"}),
        (skewed_hosts, "ahead", {"ahead:ahead", "behind:behind"}),
        (servers_lost_in_part, "a", {"a:a", "b:b"}),
        (three_attempts, "index", {"index:idx.Search/Find"}),
        (streams, "feed", {"feed:ListItems"}),
        (sidecars, "ratings", {"ratings:ratings"}),
        (own_pause, "front", {"a:a", "b:b"}),
        (slow_write, "pay", {"price:GetPrice"}),
        (fills_a_cache, "postgresql", set()),
        (upserts, "mongodb", set()),
        (gives_up, "ads", {"main:main", "ads:ads"}),
    ],
)
def test_who_is_to_blame_and_what_may_be_copied(
    form: str, make: Make, to_blame: str, reads: set[str], tmp_path: Path
) -> None:
    profile = fit_profile([filed(tmp_path, requests(make, 300, seed=7), form)])
    assert blamed(profile) == to_blame, excess_ms(profile)
    assert {stage.name for stage in profile.stages if stage.reissuable} == reads

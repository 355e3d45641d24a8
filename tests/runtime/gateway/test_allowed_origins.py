"""Host and origin checks of the gateway."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwiken.runtime.gateway.live_page.allowed_origins import AllowedOrigins


def status(
    site: AllowedOrigins,
    *hosts: str,
    method: str = "POST",
    origin: str | None = None,
    fetch_site: str | None = None,
    old: bool = False,
) -> int | None:
    refusal = site.refusal(method, hosts, origin=origin, fetch_site=fetch_site, may_lack_host=old)
    return refusal.status if refusal is not None else None


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "localhost", "127.0.0.9"])
def test_a_server_on_loopback_accepts_loopback_host_names(bound: str) -> None:
    site = AllowedOrigins(bound)
    for host in (
        "localhost",
        "LOCALHOST.:80",
        "127.0.0.1:8080",
        "[::1]",
        f"[{bound}]:1" if ":" in bound else bound,
    ):
        assert status(site, host) is None
    for host in ("rebound.example", "127.0.0.1.example", "localhost.example:80", "10.0.0.1"):
        assert status(site, host) == 421
        assert status(site, host, method="GET") == 421


def test_a_server_elsewhere_accepts_any_host_name_unless_some_are_allowed() -> None:
    assert status(AllowedOrigins("0.0.0.0"), "search.example") is None
    site = AllowedOrigins("0.0.0.0", ["Search.Example"])
    for host, told in (
        ("search.example:8080", None),
        ("localhost", None),
        ("0.0.0.0:1", None),
        ("else.example", 421),
    ):
        assert status(site, host) == told


@pytest.mark.parametrize("hosts", [(), ("a", "a"), ("a b",), ("a/b",), ("",), ("u@a",), ("a:1:2",), ("[a",)])
def test_a_request_has_one_host(hosts: Sequence[str]) -> None:
    assert status(AllowedOrigins("0.0.0.0"), *hosts) == 400
    assert status(AllowedOrigins("0.0.0.0"), *hosts, old=True) == (400 if hosts else None)


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ("http://localhost:8080", None),
        ("https://LOCALHOST:8080", None),
        ("http://localhost:3000", 403),
        ("http://localhost", 403),
        ("https://friend.example", None),
        ("https://friend.example:99", None),
        ("https://elsewhere.example", 403),
        ("https://elsewhere.example#friend.example", 403),
        ("https://friend.example.elsewhere.example", 403),
        ("null", 403),
        ("", 403),
        ("localhost:8080", 403),
    ],
)
def test_pages_of_its_own_and_of_friends_may_ask(origin: str, told: int | None) -> None:
    site = AllowedOrigins("127.0.0.1", ["friend.example"])
    assert status(site, "localhost:8080", origin=origin, fetch_site="cross-site") == told
    assert status(site, "localhost:8080", origin=origin, method="GET") is None


@pytest.mark.parametrize(
    ("fetch_site", "told"),
    [
        (None, None),
        ("none", None),
        ("same-origin", None),
        ("same-site", 403),
        ("cross-site", 403),
        ("odd", 403),
    ],
)
def test_without_origin_the_fetch_site_header_counts(fetch_site: str | None, told: int | None) -> None:
    assert status(AllowedOrigins("127.0.0.1"), "localhost", fetch_site=fetch_site) == told

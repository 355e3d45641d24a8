"""Naming of what makes slow requests slow: services, links, and the links of one service."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.arrays import Floats
from kwiken.tail.diagnosis.excess import slow_requests
from kwiken.tail.diagnosis.suspect import Link, suspect

LINKS: tuple[Link, ...] = (("gate", "shop"), ("shop", "stock"), ("shop", "price"), ("stock", "disk"))


def excess(rows: int, **slow: float) -> tuple[dict[str, Floats], dict[Link, Floats]]:
    """Excess of all services and links: none, but for those named, `caller_callee` for a link."""
    own = {name: np.full(rows, slow.get(name, 0.0)) for name in ("gate", "shop", "stock", "price", "disk")}
    return own, {link: np.full(rows, slow.get("_".join(link), 0.0)) for link in LINKS}


def test_time_between_two_services_is_the_links_and_not_the_callers() -> None:
    found = suspect(*excess(10, gate_shop=2000.0, shop=5.0), by="service")
    assert found is not None
    assert (found.what, found.name, found.services) == ("link", "between gate and shop", ("gate", "shop"))
    assert found.share == pytest.approx(2000 / 2005)


def test_own_work_is_the_services() -> None:
    found = suspect(*excess(10, stock=30.0, shop_stock=5.0), by="service")
    assert found is not None
    assert (found.what, found.services, found.excess_ms) == ("service", ("stock",), 30.0)


def test_links_that_are_slow_together_are_those_of_the_service_that_they_share() -> None:
    found = suspect(*excess(10, gate_shop=30.0, shop_stock=20.0, shop=25.0), by="service")
    assert found is not None
    assert (found.what, found.name, found.services) == ("links", "the links of shop", ("shop",))
    assert found.excess_ms == pytest.approx(50.0)


def test_callees_that_are_slow_one_at_a_time_put_no_blame_on_their_caller() -> None:
    own, links = excess(10)
    links["shop", "stock"][:6] = 100.0
    links["shop", "price"][6:] = 100.0
    found = suspect(own, links, by="service")
    assert found is not None
    assert (found.what, found.services) == ("link", ("shop", "stock"))


def test_nothing_in_excess_is_nothing_named() -> None:
    assert suspect(*excess(3), by="service") is None
    assert suspect(*excess(3, shop=-4.0, stock=3.0), by="service") is None


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_parts_sum_to_the_excess_and_the_order_of_the_input_does_not_matter(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    own = {name: rng.lognormal(1, 1, rows) for name in "abc"}
    links = {link: rng.lognormal(1, 1, rows) for link in (("a", "b"), ("b", "c"))}
    total = np.sum([*own.values(), *links.values()], axis=0)
    found = slow_requests(own, total, links=links)
    turned = slow_requests(dict(reversed(own.items())), total, links=dict(reversed(links.items())))
    for slow, other in zip(found, turned, strict=True):
        assert sum(part.excess_ms for part in slow.services) == pytest.approx(slow.excess_ms)
        assert [part.name for part in slow.services] == [part.name for part in other.services]
        assert (slow.first is None) == (other.first is None)
        if slow.first is not None and other.first is not None:
            assert slow.first.name == other.first.name
            assert slow.first.excess_ms >= slow.services[0].excess_ms - 1e-9

"""Renting: a fuzzed state machine on a fake clock, and the rules one by one."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from kwiken.allocator.provisioning.offers import Terms, prices_from_toml
from kwiken.allocator.provisioning.renting import NodeOrder, NodeRenter, NodeReturn, RentalState
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from tests.support.models.price_lists import price_list


def cluster(count: int = 4, cores: float = 1.0) -> Cluster:
    kind = NodeClass(name="core", cores=cores, memory_gb=4.0)
    return Cluster((kind,), tuple(Node(f"n{place}", "core") for place in range(count)))


def renter(*, held: int = 1, boot_s: float = 10.0, used: tuple[str, ...] = ("n0",)) -> NodeRenter:
    text = price_list(held=held, boot_s=boot_s)
    return NodeRenter(cluster(), prices_from_toml(text, where="prices"), used, 0.0, where="prices")


def carry_out(one: NodeRenter, actions: list[NodeOrder | NodeReturn], now_s: float) -> None:
    for action in actions:
        if isinstance(action, NodeOrder):
            one.ordered(action, now_s)
        else:
            one.returned(action.node, now_s, action.reason)


def test_a_shortage_is_rented_for_once() -> None:
    one = renter()
    assert one.down == ["n1", "n2", "n3"]
    first = one.observe(5.0, {"w": 0.7}, {"n0"})
    assert [action.line for action in first] == ["rent n1: w lacks 0.7 cores; by hour"]
    carry_out(one, first, 5.0)
    assert not one.observe(10.0, {"w": 0.7}, {"n0"})  # it is coming
    assert not one.booted(14.9)
    assert one.booted(15.0) == ["n1"]
    assert one.down == ["n2", "n3"]


def test_as_many_nodes_as_are_lacking() -> None:
    one = renter()
    assert [action.node for action in one.observe(0.0, {"w": 1.5, "v": 0.2}, {"n0"})] == ["n1", "n2"]
    assert len(one.observe(0.0, {"w": 1.5, "v": 0.7}, {"n0"})) == 3


def test_an_idle_node_is_kept_and_then_given_back() -> None:
    one = renter()
    carry_out(one, one.observe(0.0, {"w": 1.0}, {"n0"}), 0.0)
    one.booted(10.0)
    assert not one.observe(20.0, {}, {"n0", "n1"})
    assert not one.observe(30.0, {}, {"n0"})
    assert not one.observe(129.0, {}, {"n0"})  # ten boots of ten seconds
    (back,) = one.observe(130.0, {}, {"n0"})
    assert back == NodeReturn("n1", "idle for 100 s, and kept for 100 s")
    carry_out(one, [back], 130.0)
    (rental,) = [each for each in one.rentals if each.offer.terms is Terms.ON_DEMAND]
    assert rental.up_s(1e6) == 130.0
    assert rental.cost(1e6) == pytest.approx(130 / 3600)


def test_held_nodes_are_never_given_back() -> None:
    one = renter(held=2, used=())
    assert not one.observe(1e6, {}, set())
    one.returned("n0", 1e6, "a mistake")
    assert one.rentals[0].state is RentalState.READY


def test_short_waits_are_waited_for() -> None:
    one = renter(boot_s=60.0)
    for step in range(40):
        one.observe(10.0 * step, {"w": 0.5} if step % 2 == 0 else {}, {"n0"})
        for each in one.rentals[1:]:
            one.returned(each.node, 10.0 * step, "test")
    assert not one.observe(1000.0, {"w": 0.5}, {"n0"})  # such shortages ended after ten seconds


@pytest.mark.parametrize("seed", range(30))
def test_billed_seconds_are_those_that_nodes_were_up(seed: int) -> None:
    chance = random.Random(seed)
    one, now_s = renter(boot_s=chance.choice([0.0, 3.0, 40.0])), 0.0
    up_s: defaultdict[str, float] = defaultdict(float)
    there: set[str] = {"n0"}
    for _ in range(300):
        step_s = chance.uniform(0.0, 30.0)
        for node in there:
            up_s[node] += step_s
        now_s += step_s
        one.booted(now_s)
        ready = {each.node for each in one.rentals if each.state is RentalState.READY}
        missing = {"w": chance.uniform(0.1, 4.0)} if chance.random() < 0.3 else {}
        occupied = {node for node in ready if chance.random() < 0.5}
        for action in one.observe(now_s, missing, occupied):
            assert (action.node in there) == isinstance(action, NodeReturn)
            carry_out(one, [action], now_s)
            there.symmetric_difference_update({action.node})
        if there - {"n0"} and chance.random() < 0.05:  # a node is lost
            lost = chance.choice(sorted(there - {"n0"}))
            one.returned(lost, now_s, "it was lost")
            there.remove(lost)
        current = [each.node for each in one.rentals if each.state is not RentalState.RETURNED]
        assert sorted(current) == sorted(there)
    billed: defaultdict[str, float] = defaultdict(float)
    for each in one.rentals:
        billed[each.node] += each.up_s(now_s)
    assert billed == pytest.approx(up_s)


@pytest.mark.parametrize(
    ("text", "used", "words"),
    [
        (price_list(held=9), (), "holds 9 nodes of class 'core', and there are 4"),
        (price_list(cores=2.0), (), "says 2 cores"),
        (price_list().replace('"core"', '"other"'), (), "has no offer for class 'core'"),
    ],
)
def test_prices_that_do_not_fit_the_nodes(text: str, used: tuple[str, ...], words: str) -> None:
    with pytest.raises(InputError, match="prices") as failed:
        NodeRenter(cluster(), prices_from_toml(text, where="prices"), used, 0.0, where="prices")
    assert words in str(failed.value)

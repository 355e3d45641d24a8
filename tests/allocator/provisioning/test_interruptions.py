"""Interruptions of spot nodes: recordings, which offer serves when, and what is left for a while."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.allocator.provisioning.interruptions import (
    Recording,
    drawn_recording,
    recording_from_json,
    spot_supply,
)
from kwiken.allocator.provisioning.offers import NodeOffer, Terms
from kwiken.allocator.provisioning.payment import spot_use
from kwiken.base.errors import InputError


def offer(name: str, price: float = 0.3) -> NodeOffer:
    return NodeOffer(
        name=name,
        node_class="c",
        terms=Terms.SPOT,
        cores=1,
        price_per_hour=price,
        boot_s=30,
        interruptions="x.json",
    )


def recording(bits: str, step_s: float = 60.0) -> Recording:
    return Recording(step_s, np.array([bit == "1" for bit in bits]))


def test_the_cheapest_that_is_there_serves() -> None:
    recordings = {"a": recording("110011"), "b": recording("111101")}
    found = spot_supply([offer("b", 0.4), offer("a")], recordings, leaves=False)
    assert found is not None
    assert [one.name for one in found.offers] == ["a", "b"]
    assert found.serving.tolist() == [0, 0, 1, 1, 0, 0]
    assert found.lost.tolist() == [False, True, False, True, False, False]


def test_an_offer_with_a_short_life_is_left() -> None:
    bits = "1" * 5 + "0" + "1" * 60  # taken away after five minutes
    found = spot_supply([offer("a")], {"a": recording(bits)})
    assert found is not None
    assert found.left == 1
    assert (found.serving[5:35] == -1).all()
    assert (found.serving[36:] == 0).all()
    stays = spot_supply([offer("a")], {"a": recording(bits)}, leaves=False)
    assert stays is not None
    assert (stays.serving[6:] == 0).all()


@given(st.lists(st.booleans(), min_size=2, max_size=80), st.lists(st.booleans(), min_size=2, max_size=80))
def test_no_node_serves_that_is_not_there(first: list[bool], second: list[bool]) -> None:
    recordings = {"a": Recording(60.0, np.array(first)), "b": Recording(60.0, np.array(second))}
    found = spot_supply([offer("a"), offer("b", 0.4)], recordings)
    assert found is not None
    assert len(found.serving) == min(len(first), len(second))
    for at, serving in enumerate(found.serving):
        assert serving < 0 or recordings["ab"[serving]].up[at]
    assert 0 <= found.share_up <= 1


def test_work_waits_for_a_while_and_then_falls_back() -> None:
    bits = "1" * 40 + "0" * 10 + "1" * 30 + "0" * 11 + "1" * 9
    supply = spot_supply([offer("a")], {"a": recording(bits)}, leaves=False)
    assert supply is not None
    use = spot_use(supply, 6000.0, 1, 600.0)
    assert use.served[0] == pytest.approx(0.89)  # the outage of 11 minutes is longer than the wait
    assert use.waited[0] == pytest.approx(0.1)
    assert use.expected_price(1.0) == pytest.approx(0.89 * 0.3 + 0.11, rel=0.05)
    again = spot_use(supply, 6000.0, 5, 600.0)  # a supply that ends is repeated
    assert again.served == pytest.approx(np.full(5, 0.89))


def test_drawn_interruptions_come_at_their_rate() -> None:
    up = drawn_recording(1.0, 60.0, 60 * 24 * 100, np.random.default_rng(0), away_s=60.0).up
    assert (np.diff(up.astype(int)) == -1).sum() == pytest.approx(2400, rel=0.1)
    assert drawn_recording(0.0, 60.0, 100, np.random.default_rng(0)).up.all()


def test_recordings_of_two_steps_are_refused() -> None:
    with pytest.raises(InputError, match="different steps"):
        spot_supply([offer("a"), offer("b")], {"a": recording("11"), "b": recording("11", 30.0)})


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"metadata": {"gap_seconds": 0}, "data": [0, 1]},
        {"metadata": {"gap_seconds": 34}, "data": [1]},
        {"metadata": {"gap_seconds": 34}, "data": [0, 2]},
        {"metadata": {"gap_seconds": 34}, "data": "01"},
        {"metadata": {}, "data": [0, 1]},
    ],
)
def test_bad_recordings_are_refused(document: object) -> None:
    with pytest.raises(InputError, match=r"x\.json"):
        recording_from_json(json.dumps(document), where="x.json")

"""Learning: shares, rates and windows; thin pairs are drawn toward their parents, full ones keep their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.base.errors import InputError
from kwiken.traffic.document import TrafficModel
from kwiken.traffic.flows import Flows, TrafficUnit, binned
from kwiken.traffic.learning import learn
from kwiken.traffic.maps import MapLevel, levels_of
from kwiken.traffic.model_judgement import judge
from kwiken.traffic.windows import WindowDays, windows_in
from tests.support.data.traffic.drawn_flows import drawn, endpoints

DAY_S = 86_400.0


def uneven(services: int, instances: int, seed: int = 5) -> np.ndarray:
    """Rates of which those of instances are the product of their services' and their own shares."""
    rng = np.random.default_rng(seed)
    by_service = rng.pareto(1.2, (services, services)) * (rng.random((services, services)) < 0.4)
    np.fill_diagonal(by_service, 0.0)
    out, into = (
        rng.dirichlet(np.full(instances, 5.0), services),
        rng.dirichlet(np.full(instances, 5.0), services),
    )
    return np.asarray(np.einsum("ab,ai,bj->aibj", by_service, out, into).reshape(services * instances, -1))


def test_shares_of_every_window_sum_to_1_and_levels_agree() -> None:
    flows = binned(drawn(uneven(6, 3), 3600, 1, endpoints(6, 3)), 300)
    model = learn(flows, windows_in(4, (WindowDays.ALL,)))
    for each in model.windows:
        assert sum(each.shares) == pytest.approx(1.0, abs=1e-9)
    total = model.rates_per_s().sum()
    for level in levels_of(model.endpoints):
        assert model.traffic_map(level).amount.sum() == pytest.approx(total, rel=1e-9)


def test_thin_pairs_of_instances_come_nearer_to_the_truth_than_their_mean() -> None:
    """Behind a balancer, pairs of instances are products; few calls are drawn toward them."""
    ends, rates = endpoints(8, 6), uneven(8, 6)
    early, late = (binned(drawn(rates, seconds, seed, ends), 60) for seconds, seed in ((900, 2), (90_000, 3)))
    found = {each.level: each for each in judge(learn(early), late).levels}
    instance = found[MapLevel.INSTANCE]
    assert instance.model.all_pairs < 0.8 * instance.mean.all_pairs
    assert instance.model.rare < instance.mean.rare
    assert found[MapLevel.SERVICE].model.all_pairs <= found[MapLevel.SERVICE].mean.all_pairs


def test_pairs_that_depart_from_their_parents_keep_their_own_share() -> None:
    """Sticky instances: one caller has one callee. The product of shares would be wrong."""
    ends = endpoints(2, 6)
    rates = np.zeros((12, 12))
    rates[np.arange(6), 6 + np.arange(6)] = np.arange(1, 7)
    early, late = (binned(drawn(rates, 900, seed, ends), 60) for seed in (2, 3))
    model = learn(early)
    assert model.prior.instance == 0
    instance = judge(model, late).levels[-1]
    assert instance.model == instance.mean


def test_a_day_of_two_halves_gets_two_windows() -> None:
    ends = endpoints(3)
    rates = np.zeros((3, 3))
    rates[0, 1], rates[1, 2] = 0.05, 0.02
    parts = []
    for day in range(6):
        parts.append(drawn(rates, DAY_S / 2, day, ends, day * DAY_S))
        parts.append(drawn(3 * rates, DAY_S / 2, 100 + day, ends, (day + 0.5) * DAY_S))
    flows = Flows(
        ends,
        TrafficUnit.CALLS,
        *(np.concatenate([getattr(p, f) for p in parts]) for f in ("start_s", "source", "target", "amount")),
    )
    model = learn(binned(flows, 3600))
    night, noon = (model.windows[k].amount / model.windows[k].seconds for k in (0, -1))
    assert len(model.windows) >= 2
    assert noon / night == pytest.approx(3.0, rel=0.05)


def test_instances_that_are_new_get_the_mean_of_their_service() -> None:
    rates = uneven(5, 2)
    early = binned(drawn(rates, 3600, 1, endpoints(5, 2)), 300)
    renamed = tuple(type(one)(name=f"new-{one.name}", service=one.service) for one in endpoints(5, 2))
    found = judge(learn(early), binned(drawn(rates, 3600, 2, renamed), 300))
    assert (found.new, found.unknown) == (10, 0)
    by_level = {each.level: each for each in found.levels}
    assert by_level[MapLevel.SERVICE].model.all_pairs < 0.1


def test_services_that_are_new_are_an_error_and_counted() -> None:
    early = binned(drawn(uneven(3, 1, 8) + 0.1, 3600, 1, endpoints(3)), 300)
    found = judge(learn(early), binned(drawn(uneven(5, 1, 8) + 0.1, 3600, 1, endpoints(5)), 300))
    assert found.unknown == 2
    assert found.levels[-1].model.all_pairs > 0.2


@settings(max_examples=25, deadline=None)
@given(
    services=st.integers(2, 5),
    instances=st.integers(1, 3),
    seed=st.integers(0, 1000),
    parts=st.sampled_from([1, 2, 4]),
)
def test_a_model_is_read_as_it_was_written(services: int, instances: int, seed: int, parts: int) -> None:
    ends = endpoints(services, instances)
    rates = np.random.default_rng(seed).random((len(ends), len(ends)))
    model = learn(binned(drawn(rates, 100, seed, ends), 10), windows_in(parts, (WindowDays.ALL,)))
    assert TrafficModel.from_json(model.to_json(), where="m") == model


def test_traffic_with_itself_is_none() -> None:
    with pytest.raises(InputError, match="no traffic between two"):
        binned(drawn(np.eye(2), 100, 1, endpoints(2)), 10)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 1}, "version must be 2"),
        ({"unit": "packets"}, "unit"),
        ({"source": [9]}, "no endpoint 9"),
        ({"target": [0, 1]}, "target has 2 entries"),
        ({"seen": []}, "seen has 0 entries"),
        ({"until_s": 0}, "until_s must be above from_s"),
        ({"extra": 1}, "unknown field"),
        ({"windows": []}, "windows"),
    ],
)
def test_a_bad_model_is_refused_by_its_field(change: dict[str, object], why: str) -> None:
    import msgspec

    rates = np.zeros((2, 2))
    rates[0, 1] = 1
    model = learn(binned(drawn(rates, 100, 1, endpoints(2)), 10))
    raw = msgspec.json.decode(model.to_json()) | change
    with pytest.raises(InputError, match=why):
        TrafficModel.from_json(msgspec.json.encode(raw), where="m.json")


def test_shares_that_do_not_sum_to_1_are_refused() -> None:
    import msgspec

    rates = np.zeros((2, 2))
    rates[0, 1] = 1
    raw = msgspec.json.decode(learn(binned(drawn(rates, 100, 1, endpoints(2)), 10)).to_json())
    raw["windows"][0]["shares"] = [0.5]
    with pytest.raises(InputError, match=r"windows\[0\].shares must sum to 1"):
        TrafficModel.from_json(msgspec.json.encode(raw), where="m.json")

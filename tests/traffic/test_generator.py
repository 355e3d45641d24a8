"""Generation: rates, windows and shares come back; one seed, one traffic."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy import stats

from kwiken.base.errors import InputError
from kwiken.traffic.flows import binned
from kwiken.traffic.generator import generate_counts, generate_events
from kwiken.traffic.learning import learn
from kwiken.traffic.windows import WindowDays, windows_in
from tests.support.data.traffic.drawn_flows import drawn, endpoints
from tests.traffic.test_learning import uneven


def test_events_come_at_the_rates_and_to_the_pairs_of_the_model() -> None:
    model = learn(binned(drawn(uneven(4, 2), 3600, 1, endpoints(4, 2)), 300))
    rates = model.rates_per_s()
    found = generate_events(model, 50_000 / rates.sum(), np.random.default_rng(1), start_s=0.0)
    assert len(found.at_s) == pytest.approx(50_000, abs=5 * 50_000**0.5)
    assert (np.diff(found.at_s) >= 0).all()
    keys = np.array(model.source) * 8 + np.array(model.target)
    seen = np.bincount(found.source * 8 + found.target, minlength=64)[keys]
    likely = rates > 1e-3 * rates.sum()
    share = rates / rates.sum()
    error = np.sqrt(share * (1 - share) / len(found.at_s))
    assert (np.abs(seen / len(found.at_s) - share)[likely] < 4 * error[likely]).all()


def test_counts_and_events_agree() -> None:
    model = learn(binned(drawn(uneven(4, 1), 36_000, 1, endpoints(4)), 300))
    bins = 400
    counts = generate_counts(model, bins, np.random.default_rng(1), start_s=0.0).sum(axis=0)
    events = generate_events(model, bins * model.bin_s, np.random.default_rng(2), start_s=0.0)
    keys = np.array(model.source) * 4 + np.array(model.target)
    seen = np.bincount(events.source * 4 + events.target, minlength=16)[keys]
    both = (counts + seen) > 10
    assert stats.chi2_contingency(np.stack([counts[both], seen[both]])).pvalue > 0.01


def test_windows_rule_their_hours() -> None:
    ends = endpoints(2)
    rates = np.zeros((2, 2))
    rates[0, 1] = 1.0
    model = learn(binned(drawn(rates, 86_400, 1, ends), 300), windows_in(2, (WindowDays.ALL,)))
    night, noon = model.windows
    noon = msgspec.structs.replace(noon, amount=3 * night.amount)
    model = msgspec.structs.replace(model, windows=[night, noon])
    counts = generate_counts(model, 288, np.random.default_rng(1), start_s=0.0).sum(axis=1)
    assert counts[144:].mean() / counts[:144].mean() == pytest.approx(3.0, rel=0.02)


def test_one_seed_one_traffic() -> None:
    model = learn(binned(drawn(uneven(4, 1), 3600, 1, endpoints(4)), 300))
    one, same, other = (
        generate_counts(model, 10, np.random.default_rng(seed), start_s=0.0) for seed in (1, 1, 2)
    )
    assert (one == same).all()
    assert (one != other).any()


def test_too_much_is_refused_before_it_is_drawn() -> None:
    model = learn(binned(drawn(uneven(4, 1), 3600, 1, endpoints(4)), 300))
    with pytest.raises(InputError, match="too long"):
        generate_events(model, 1e12, np.random.default_rng(1), start_s=0.0)
    with pytest.raises(InputError, match="events; choose"):
        generate_events(model, 1e7, np.random.default_rng(1), start_s=0.0, scale=1e6)
    with pytest.raises(InputError, match="bins times pairs"):
        generate_counts(model, 10**9, np.random.default_rng(1), start_s=0.0)

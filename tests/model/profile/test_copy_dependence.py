"""Whether a copy would be as slow as its call: evidence from calls to other replicas, requests and replicas."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.base.arrays import Floats, Ints
from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.copy_dependence import Trait, at_end, with_dependence
from kwiken.model.profile.profile import CopyDependence, Profile, SlowBand, StageProfile

REQUESTS, RATE_PER_S, PODS = 3000, 50.0, 3


def profile_with(calls_ms: Floats, pods: Ints | None, started_s: Floats) -> Profile:
    stage = StageProfile(
        name="rows",
        match=SpanMatch(service="rows", operation="GET /rows"),
        calls_ms=calls_ms[:, None],
        censored=np.zeros((len(calls_ms), 1), np.bool_),
        asked=None if pods is None else pods[:, None],
        replica_names=() if pods is None else tuple(f"rows-{pod}" for pod in range(PODS)),
    )
    latency = end_to_end([stage], {"rows": stage.latency_ms})
    return Profile(service="api", stages=(stage,), latency_ms=latency, started_s=started_s)


def arrivals(rng: np.random.Generator) -> tuple[Floats, Ints, Floats]:
    """Starts, seconds, pods, and usual latencies, milliseconds."""
    started = np.cumsum(rng.exponential(1 / RATE_PER_S, REQUESTS))
    return started, rng.integers(PODS, size=REQUESTS), rng.lognormal(2.3, 0.2, REQUESTS)


def told(profile: Profile, *traits: Trait) -> CopyDependence:
    found = with_dependence(profile, traits).stages[0].dependence
    assert found is not None
    return found


def stalled(started: Floats, usual: Floats, period_s: float, length_s: float, shift_s: Floats) -> Floats:
    into = (started + shift_s) % period_s
    return np.asarray(usual + np.where(into < length_s, (length_s - into) * 1000, 0.0))


def test_stalls_of_all_replicas_make_copies_useless_and_their_period_is_known() -> None:
    started, pods, usual = arrivals(np.random.default_rng(1))
    found = told(profile_with(stalled(started, usual, 7.0, 0.4, np.zeros(REQUESTS)), pods, started))
    assert found.shown
    assert found.together
    assert found.period_s == pytest.approx(7.0, rel=0.03)
    assert min(band.low for band in found.bands) > 0.5


def test_stalls_of_single_replicas_leave_copies_of_use() -> None:
    started, pods, usual = arrivals(np.random.default_rng(2))
    shift = np.array([0.0, 2.5, 4.8])[pods]
    found = told(profile_with(stalled(started, usual, 7.0, 0.4, shift), pods, started))
    assert found.shown
    assert not found.together
    assert max(band.share for band in found.bands) < 0.25


def test_an_attribute_or_a_size_tells_requests_that_are_slow_anywhere() -> None:
    rng = np.random.default_rng(3)
    started, pods, usual = arrivals(rng)
    heavy = rng.random(REQUESTS) < 0.04
    owners = np.where(heavy, rng.integers(2, size=REQUESTS), 2 + rng.integers(9, size=REQUESTS))
    tenants = Trait("tenant.id", [f"t{each}" for each in range(11)], owners)
    decoy = Trait("region", ["a", "b", "c"], rng.integers(3, size=REQUESTS))
    profile = profile_with(np.where(heavy, 15 * usual, usual), pods, started)
    found = told(profile, decoy, tenants)
    assert found.attribute == "tenant.id"
    assert set(found.values) == {"t0", "t1"}
    assert min(band.low for band in found.bands) > 0.8
    assert told(profile, decoy).attribute == ""

    size = rng.lognormal(0, 1, REQUESTS)
    rows = Trait("rows", [str(each) for each in size.tolist()], np.arange(REQUESTS))
    sized = told(profile_with(usual * np.maximum(1, size), pods, started), decoy, rows)
    assert (sized.attribute, sized.values) == ("rows", ())


def test_one_replica_is_known_by_its_share_of_the_slowest_calls() -> None:
    rng = np.random.default_rng(4)
    started, pods, usual = arrivals(rng)
    slow = (pods == 2) & (rng.random(REQUESTS) < 0.06)
    found = told(profile_with(usual + 300.0 * slow, pods, 40 * started))
    assert found.replica == "rows-2"
    assert found.shown
    assert max(band.share for band in found.bands) < 0.1


def test_without_names_of_instances_nothing_is_shown() -> None:
    started, _, usual = arrivals(np.random.default_rng(5))
    profile = with_dependence(
        profile_with(stalled(started, usual, 7.0, 0.4, np.zeros(REQUESTS)), None, started)
    )
    assert profile.stages[0].dependence == CopyDependence()
    assert not profile.stages[0].copies_shown


def test_documents_keep_what_is_known_and_earlier_ones_are_read() -> None:
    started, pods, usual = arrivals(np.random.default_rng(6))
    plain = profile_with(stalled(started, usual, 7.0, 0.4, np.zeros(REQUESTS)), pods, started)
    known = with_dependence(plain)
    read = profile_from_json(profile_to_json(known))
    assert read.stages[0].dependence == known.stages[0].dependence
    assert read.digest == known.digest
    assert profile_from_json(profile_to_json(plain)).stages[0].dependence is None
    low, high = (at_end(known, end).stages[0].dependence for end in ("low", "high"))
    assert low is not None
    assert high is not None
    assert low.bands[0].share == known.stages[0].dependence.bands[0].low  # type: ignore[union-attr]
    assert high.bands[0].share == known.stages[0].dependence.bands[0].high  # type: ignore[union-attr]


@pytest.mark.parametrize("shares", [(0.5, 0.2, 0.9), (-0.1, 0.0, 0.2), (0.1, 0.5, 1.5)])
def test_bands_are_refused_whose_shares_are_none(shares: tuple[float, float, float]) -> None:
    low, share, high = shares
    with pytest.raises(ValueError, match="low <= share <= high"):
        SlowBand(from_ms=1.0, share=share, low=low, high=high)
    band = SlowBand(from_ms=2.0, share=0.1, low=0.1, high=0.1)
    with pytest.raises(ValueError, match="rising"):
        CopyDependence(bands=(band, replace_from(band, 1.0)))


def replace_from(band: SlowBand, from_ms: float) -> SlowBand:
    return SlowBand(from_ms=from_ms, share=band.share, low=band.low, high=band.high)


def test_causes_are_those_of_the_slowest_calls_where_others_are_slow_by_their_usual_spread() -> None:
    rng = np.random.default_rng(8)
    started, pods, usual = arrivals(rng)
    usual = np.where(rng.random(REQUESTS) < 0.03, 2.3 * usual, usual)  # on any replica, at any time
    stops = profile_with(stalled(started, usual, 7.0, 0.4, np.zeros(REQUESTS)), pods, started)
    found = told(stops)
    assert found.together
    assert found.period_s == pytest.approx(7.0, rel=0.03)
    heavy = rng.random(REQUESTS) < 0.02
    flag = Trait("export", ["false", "true"], heavy.astype(np.int64))
    marked = told(profile_with(np.where(heavy, 20 * usual, usual), pods, started), flag)
    assert marked.attribute == "export"
    assert marked.bands[-1].low > 0.8

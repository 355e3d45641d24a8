"""Calls as one model: a client's side, a server's side, and what stands between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.tail.diagnosis.explanation import explain
from tests.support.otel.field import filed
from tests.support.otel.field_data import field_file
from tests.support.otel.two_sides import KINDS, REQUESTS, SEEDS, Drawn, drawn

US = 0.002  # milliseconds: some formats cut times to whole microseconds


def parts(profile: Profile) -> tuple[dict[str, np.ndarray], dict[tuple[str, str], np.ndarray]]:
    """Time of each service, and of each link, in each request, milliseconds."""
    assert profile.service_ms is not None
    links = profile.link_ms if profile.link_ms is not None else np.zeros((profile.requests, 0))
    return (
        dict(zip(profile.service_names, profile.service_ms.T, strict=True)),
        dict(zip(profile.link_names, links.T, strict=True)),
    )


def stage_of(profile: Profile, service: str) -> np.ndarray:
    """Latency of the one stage of a service in each request, milliseconds."""
    (found,) = (stage for stage in profile.stages[1:] if stage.match.service == service)
    return np.nan_to_num(found.latency_ms)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_time_of_each_part_is_the_true_one(kind: str, seed: int, tmp_path: Path) -> None:
    data: Drawn = drawn(kind, seed)
    profile = fit_profile([filed(tmp_path, data.spans, data.form)], depth=3)
    assert profile.requests == REQUESTS
    own, link = parts(profile)
    assert set(own) == {service for each in data.own for service in each}
    for service, times in own.items():
        np.testing.assert_allclose(times, [each[service] for each in data.own], atol=20 * US, err_msg=service)
    for pair in {pair for each in data.link for pair in each}:
        np.testing.assert_allclose(link[pair], [each[pair] for each in data.link], atol=20 * US)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_stages_and_the_blame_agree(kind: str, seed: int, tmp_path: Path) -> None:
    data = drawn(kind, seed)
    profile = fit_profile([filed(tmp_path, data.spans, data.form)], root=f"{data.caller}:GET /page")
    own, link = parts(profile)
    np.testing.assert_allclose(profile.stages[0].latency_ms, own[data.caller], atol=20 * US)
    for service in {stage.match.service for stage in profile.stages[1:]}:
        np.testing.assert_allclose(
            stage_of(profile, service), own[service] + link[data.caller, service], atol=20 * US
        )


def first_of(profile: Profile) -> tuple[str, int]:
    """What is named first for the slowest 5%, and its share in percent."""
    slow = explain(profile).slow[-1]
    assert slow.first is not None
    return slow.first.name, round(100 * slow.first.share)


def usual(profile: Profile, service: str, percentile: float = 50) -> float:
    return float(np.percentile(parts(profile)[0][service], percentile))


def test_the_case_of_a_mesh_that_tries_again() -> None:
    profile = fit_profile([field_file("G05")])
    own, link = parts(profile)
    slow = np.argsort(profile.latency_ms)[-40:]
    assert link["web", "inv"][slow].mean() == pytest.approx(25.6, abs=0.01)
    assert own["web"].max() - own["web"].min() < 1, "web has no tail"
    np.testing.assert_allclose(stage_of(profile, "inv"), own["inv"] + link["web", "inv"], atol=US)


def test_the_case_of_a_slow_look_up() -> None:
    profile = fit_profile([field_file("G07")])
    assert first_of(profile) == ("between front and back", 100)
    assert np.percentile(stage_of(profile, "back"), 50) == pytest.approx(11.4, abs=0.05)
    assert np.percentile(stage_of(profile, "back"), 99) == pytest.approx(5011, abs=1)


def test_the_case_of_a_client_that_ends_at_the_headers() -> None:
    profile = fit_profile([field_file("G09")])
    assert first_of(profile) == ("rows", 100)
    own, _ = parts(profile)
    np.testing.assert_allclose(own["portal"], 7.0, atol=US)


def test_the_case_of_pods_with_different_clocks() -> None:
    profile = fit_profile([field_file("G21")])
    assert [stage.visit_share for stage in profile.stages] == [1.0, 1.0, 1.0]
    assert first_of(profile) == ("inv", 100)
    np.testing.assert_allclose(profile.stages[0].latency_ms, 6.0, atol=US)
    assert np.percentile(stage_of(profile, "inv"), 99) == pytest.approx(80.4, abs=0.1)

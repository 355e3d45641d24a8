"""Forecasts by the published rule, limits by curves, and documents of a packing."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.storage.consolidation.document import (
    DiskCurve,
    datasets_from_toml,
    history_from_csv,
    objects_of,
)
from kwiken.storage.consolidation.forecast import DemandForecaster
from papers.bloc.pairs import predict
from papers.bloc.published_curve import published_latency_ms, published_limit

DOCUMENT = """
[[disks]]
class = "hdd"
mb_s = 400
capacity_gb = 1200

[[datasets]]
name = "index"
gb = 300
mb_s = 12
replicas = 2
reissue = 0.5
target_ms = 5
curve = [[0.0, 1.5], [0.3, 5.0], [0.4, 22.0]]
"""


@pytest.mark.parametrize(
    ("share", "wanted"),
    [(0, 100), (0.1, 101), (0.2, 104), (0.29, 108.41), (0.3, 130), (0.5, 150), (0.69, 169), (0.7, 200)],
)
def test_published_predictions(share: float, wanted: float) -> None:
    assert predict(100.0, 200.0, share) == pytest.approx(wanted, abs=1e-9)


def test_a_periodic_demand_is_predicted_without_error() -> None:
    day = np.random.default_rng(0).uniform(1, 9, (48, 3))
    caster = DemandForecaster(48, 3)
    for number, seen in enumerate(np.tile(day, (8, 1))):
        if number >= 7 * 48:
            assert caster.forecast() == pytest.approx(seen)
        elif number:
            caster.forecast()
        caster.observe(seen)


def test_a_quantile_covers_more_than_the_rule() -> None:
    rng = np.random.default_rng(1)
    covered = {}
    for quantile in (None, 0.95):
        caster = DemandForecaster(48, 20, quantile)
        below = []
        for number, seen in enumerate(rng.lognormal(0, 0.3, (48 * 9, 20))):
            if number:
                ahead = caster.forecast()
                below.append(float((seen <= ahead).mean()))
            caster.observe(seen)
        covered[quantile] = np.mean(below[-48:])
    assert covered[0.95] == pytest.approx(0.95, abs=0.04)
    assert covered[None] < 0.8


def test_limits_of_the_published_curve() -> None:
    assert published_limit(5.0, 0.4286) == pytest.approx(0.30, abs=1e-4)
    assert published_limit(5.0, 1.0) == pytest.approx(0.70)
    assert float(published_latency_ms(0.7, 1.0)) == pytest.approx(5.0)
    assert float(published_latency_ms(1.0, 1.0)) == np.inf


def test_a_curve_is_inverted_between_its_points() -> None:
    curve = DiskCurve(np.array([0.0, 0.3, 0.4]), np.array([1.5, 5.0, 22.0]))
    assert curve.limit(5.0) == pytest.approx(0.3)
    assert curve.limit(3.25) == pytest.approx(0.15)
    assert curve.limit(1.0) == 0.0
    assert curve.limit(100.0) == 0.4


def test_reissues_add_to_the_bandwidth_and_replicas_share_a_datum() -> None:
    objects, _ = objects_of(datasets_from_toml(DOCUMENT, where="x"))
    assert objects.bandwidth.tolist() == [18.0, 18.0]
    assert objects.datum.tolist() == [0, 0]
    assert objects.bandwidth_limit[:, 0] == pytest.approx([120.0, 120.0])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("mb_s = 12", "mb_s = nan", "mb_s"),
        ("gb = 300", "gb = -1", "gb"),
        ("target_ms = 5\n", "", "go together"),
        ("[0.3, 5.0]", "[0.0, 5.0]", "must rise"),
        ('name = "index"', 'name = "a b"', "name"),
        ("replicas = 2", "replica = 2", "replica"),
    ],
)
def test_bad_documents_are_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        datasets_from_toml(DOCUMENT.replace(old, new), where="x")


def test_a_history_is_read_by_step() -> None:
    text = "t_s,dataset,mb_s\n0,a,1\n900,a,3\n1800,a,5\n0,b,2\n"
    assert history_from_csv(text, ["a", "b"], 1800.0, where="x").tolist() == [[2.0, 2.0], [5.0, 2.0]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("time,a\n", "header"),
        ("t_s,dataset,mb_s\n0,a,x\n", "x:2"),
        ("t_s,dataset,mb_s\n0,c,1\n", "no data set 'c'"),
        ("t_s,dataset,mb_s\n0,a,1\n", "no row of the data set 'b'"),
        ("t_s,dataset,mb_s\n", "no row"),
    ],
)
def test_bad_histories_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        history_from_csv(text, ["a", "b"], 1800.0, where="x")

"""Instances of services: counted at a time, compared with each other, by any attribute that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import Profile
from kwiken.otel.fit.fit import fit_profile
from kwiken.tail.diagnosis.explanation import explain
from kwiken.tail.diagnosis.slow_replicas import slow_replicas
from tests.support.otel.replicated import Shop
from tests.support.otel.span_trees import write

THREE = (("pricing", 3), ("stock", 3), ("reviews", 2))


def fitted(folder: Path, shop: Shop, *, jaeger: bool = False) -> Profile:
    return fit_profile([write(folder / "traces.json", shop.jaeger() if jaeger else shop.otlp())])


@pytest.mark.parametrize("jaeger", [False, True])
@pytest.mark.parametrize(
    "key", ["k8s.pod.name", "service.instance.id", "container.id", "host.name", "hostname"]
)
def test_replicas_are_counted_and_the_slow_one_is_named(key: str, jaeger: bool, tmp_path: Path) -> None:
    shop = Shop(requests=300, replicas=THREE, slow_pod=("pricing", 1), key=key)
    profile = fitted(tmp_path, shop, jaeger=jaeger)
    replicas = {stage.match.service: stage.replicas for stage in profile.stages[1:]}
    assert replicas == {"pricing": 3, "stock": 3, "reviews": 2}
    assert profile.stage("pricing:pricing").replica_names == ("pricing-0", "pricing-1", "pricing-2")
    (slow,) = slow_replicas(profile.instances)
    assert (slow.service, slow.name, slow.others, slow.tail) == ("pricing", "pricing-1", 2, False)
    assert slow.times == pytest.approx(3, rel=0.2)
    assert explain(profile).slow_replicas == (slow,)
    again = profile_from_json(profile_to_json(profile))
    assert again.instances == profile.instances


def test_pods_that_replace_each_other_are_one_replica_at_a_time(tmp_path: Path) -> None:
    profile = fitted(tmp_path, Shop(requests=100, restarts=True, stalls="stock"))
    assert {stage.replicas for stage in profile.stages[1:]} == {1}
    assert profile.instances == (), "they were never there at one time"


def test_without_names_nothing_is_known_of_replicas(tmp_path: Path) -> None:
    profile = fitted(tmp_path, Shop(requests=60, replicas=THREE, key=None))
    assert {stage.replicas for stage in profile.stages} == {None}
    assert profile.instances == ()
    assert profile.stages[1].asked is None


def test_healthy_replicas_are_not_blamed_for_a_slow_callee_or_link(tmp_path: Path) -> None:
    for shop in (
        Shop(requests=400, replicas=THREE, stalls="stock"),
        Shop(requests=400, replicas=(*THREE, ("shop", 3)), slow_pod=("stock", 2), seed=3),
        Shop(requests=400, replicas=THREE, slow_link=("shop", "stock")),
    ):
        named = [each.name for each in slow_replicas(fitted(tmp_path, shop).instances)]
        assert named == (["stock-2"] if shop.slow_pod else [])

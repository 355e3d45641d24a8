"""Provisions for Karpenter, checked against the custom resource definitions of its Go module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from kwiken.allocator.provisioning.document import Provision, study_provision
from kwiken.allocator.provisioning.interruptions import Recording
from kwiken.allocator.provisioning.load_curve import curve_of
from kwiken.allocator.provisioning.offers import prices_from_toml
from kwiken.allocator.provisioning.strategies import ProvisioningSettings, market
from kwiken.base.errors import InputError
from kwiken.export.provisions.karpenter import karpenter_pools
from tests.support.export.schemas import faults, schema_of_resource

PRICES = """
currency = "USD"
date = 2026-11-01
source = "a page"
[[offers]]
name = "on demand"
class = "m7.xlarge"
terms = "on-demand"
cores = 4
price_per_hour = 0.2
boot_s = 40
[[offers]]
name = "year"
class = "m7.xlarge"
terms = "reserved"
cores = 4
price_per_hour = 0.125
term_days = 365
[[offers]]
name = "spot"
class = "m7.xlarge"
terms = "spot"
cores = 4
price_per_hour = 0.07
boot_s = 40
interruptions = "zone.json"
"""


def provision() -> Provision:
    up = Recording(60.0, np.tile([True] * 50 + [False] * 2, 40))
    of = market(prices_from_toml(PRICES, where="prices.toml"), {"spot": up}, ProvisioningSettings())
    hours = np.arange(24 * 14)
    load = curve_of(0.0, 3600.0, 100 + 40 * np.sin(hours / 24 * 2 * np.pi), 0.3)
    return study_provision(load, of).provision


def definition() -> dict[str, Any]:
    """Schema of NodePool in Karpenter's module."""
    return schema_of_resource("sigs.k8s.io/karpenter", "v1.15.0", "pkg/apis/crds/karpenter.sh_nodepools.yaml")


def test_pools_follow_the_decision() -> None:
    decided = provision()
    pools = list(yaml.safe_load_all(karpenter_pools(decided, where="p.json")))
    assert [pool["metadata"]["name"] for pool in pools] == ["year", "on-demand", "spot"]
    weights = {pool["metadata"]["name"]: pool["spec"]["weight"] for pool in pools}
    assert weights["year"] > weights["spot"] > weights["on-demand"]
    reserved = decided.offers[0]
    assert pools[0]["spec"]["limits"]["nodes"] == str(reserved.nodes)
    assert pools[0]["spec"]["disruption"]["consolidateAfter"] == "Never"
    assert pools[1]["spec"]["disruption"]["consolidateAfter"] == "400s"  # ten boots of 40 s
    assert pools[2]["spec"]["template"]["spec"]["taints"][0]["effect"] == "NoSchedule"


def test_karpenter_takes_the_pools() -> None:
    schema = definition()
    for pool in yaml.safe_load_all(karpenter_pools(provision(), where="p.json")):
        assert not faults(pool, schema, "pool", {"pool.metadata"})


def test_the_check_sees_faults() -> None:
    schema = definition()
    pool = next(yaml.safe_load_all(karpenter_pools(provision(), where="p.json")))
    pool["spec"]["disruption"]["consolidateAfter"] = "soon"
    pool["spec"]["template"]["spec"]["colour"] = 1
    del pool["spec"]["template"]["spec"]["nodeClassRef"]
    assert len(faults(pool, schema, "pool", {"pool.metadata"})) == 3


def test_a_class_that_is_no_label_is_refused() -> None:
    text = provision().to_json().replace("m7.xlarge", "large node")
    with pytest.raises(InputError, match="is no instance type"):
        karpenter_pools(Provision.from_json(text, where="p.json"), where="p.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "is no provision"),
        ("[", "broken JSON"),
        ('{"offers": [], "prices_of": ""}', "version must be 1"),
    ],
)
def test_other_documents_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Provision.from_json(text, where="p.json")

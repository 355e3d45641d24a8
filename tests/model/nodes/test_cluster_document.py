"""The document of a cluster: nodes in racks with slots, disks and links."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.nodes.document import cluster_from_toml, nodes_from_toml

CLUSTER = """
[[classes]]
name = "worker"
cores = 8
memory_gb = 32
slots = 16
disk_mb_per_s = 400
nic_gbps = 10

[[nodes]]
name = "a"
class = "worker"
rack = "r1"
count = 3

[[nodes]]
name = "b"
class = "worker"
zone = "r2"
count = 2

[[racks]]
name = "r2"
uplink_gbps = 8
"""


def test_racks_come_from_racks_and_zones() -> None:
    found = cluster_from_toml(CLUSTER, where="cluster.toml")
    assert found.rack_names == ("r1", "r2")
    assert found.rack_slots.tolist() == [48, 32]
    assert found.rack_sizes.tolist() == [3, 2]
    assert found.uplink_bytes_per_s.tolist() == pytest.approx([3 * 10e9 / 8 / 5, 1e9])
    assert np.unique(found.disk_bytes_per_s).tolist() == [4e8]


def test_the_same_document_lists_nodes() -> None:
    assert [node.name for node in nodes_from_toml(CLUSTER, where="x").nodes] == [
        "a-1",
        "a-2",
        "a-3",
        "b-1",
        "b-2",
    ]


def test_slots_that_services_hold_are_not_there() -> None:
    found = cluster_from_toml(CLUSTER, where="x").without_cores({"a-1": 3.0, "b-2": 100.0})
    assert found.slots.tolist() == [10, 16, 16, 16, 0]
    with pytest.raises(InputError, match="no-such"):
        found.without_cores({"no-such": 1.0})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("slots = 16", "slots = 0"), "slots"),
        (("uplink_gbps = 8", "uplink_gbps = 0"), "uplink_gbps"),
        (("uplink_gbps = 8", "uplink_gbps = nan"), "uplink_gbps"),
        (("nic_gbps = 10", "nic_gbps = inf"), "nic_gbps"),
        (('name = "r2"', 'name = "r9"'), "r9"),
        (('zone = "r2"', ""), "neither rack nor zone"),
        (("slots = 16", "speeds = 16"), "speeds"),
    ],
)
def test_bad_documents_name_the_field(change: tuple[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        cluster_from_toml(CLUSTER.replace(*change), where="cluster.toml")

"""Supply of processors: prices, speeds, room and places on unequal nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwiken.allocator.capacity.supply import DEFAULT_MEMORY_GB, StageNeed, StageSize, Supply
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass

NODES = """
[[classes]]
name = "large"
cores = 4
memory_gb = 8
speed = 1.0
cost_per_hour = 0.4

[[classes]]
name = "small"
cores = 2
memory_gb = 8
speed = 0.5
cost_per_hour = 0.1

[[nodes]]
name = "large"
class = "large"
zone = "a"
count = 2

[[nodes]]
name = "small"
class = "small"
zone = "b"
count = 3
"""


def cluster(text: str = NODES) -> Cluster:
    return nodes_from_toml(text, where="nodes.toml")


def test_a_replica_costs_its_share_of_cores_and_memory() -> None:
    supply = Supply(["a"], {"a": StageNeed(memory_gb=2.0)}, cluster())
    assert supply.price.tolist() == [pytest.approx([0.4 * (1 / 4 + 2 / 8) / 2, 0.1 * (1 / 2 + 2 / 8) / 2])]
    assert supply.speed.tolist() == [[1.0, 0.5]]
    assert supply.cost([StageSize(3, 1)]) == pytest.approx(3 * supply.price[0, 1])


def test_without_nodes_a_core_costs_one() -> None:
    supply = Supply(["a", "b"], {})
    sizes = [StageSize(3), StageSize(4)]
    assert supply.cost(sizes) == 7.0
    assert supply.price.tolist() == supply.speed.tolist() == [[1.0], [1.0]]
    assert supply.limit.tolist() == [[64], [64]]
    assert supply.fits(sizes)
    assert not supply.fits([StageSize(65), StageSize(1)])


@pytest.mark.parametrize(
    ("spread", "limit"), [(Spread.NONE, [8, 6]), (Spread.NODE, [2, 3]), (Spread.ZONE, [1, 1])]
)
def test_spread_bounds_the_replicas_of_a_class(spread: Spread, limit: list[int]) -> None:
    supply = Supply(["a"], {"a": StageNeed(spread=spread)}, cluster())
    assert supply.limit.tolist() == [limit]
    for place, most in enumerate(limit):
        assert supply.fits([StageSize(most, place)])
        assert not supply.fits([StageSize(most + 1, place)])


def test_replicas_of_all_stages_draw_from_the_same_nodes() -> None:
    supply = Supply(["a", "b"], {"a": StageNeed(spread=Spread.NODE)}, cluster())
    assert supply.fits([StageSize(2, 0), StageSize(6, 0)])
    assert not supply.fits([StageSize(2, 0), StageSize(7, 0)])
    places = supply.packed([StageSize(2, 0), StageSize(6, 0)])
    assert places is not None
    assert sorted(places[0]) == [0, 1]
    counts = [sum(stage.count(node) for stage in places) for node in range(5)]
    assert counts == [4, 4, 0, 0, 0]


def test_replicas_that_may_not_share_a_node_do_not_where_other_stages_fill_the_nodes() -> None:
    """On two of three nodes there is room for one replica, and for three on the last one."""
    text = """
[[classes]]
name = "one"
cores = 3
memory_gb = 8
speed = 1.0

[[nodes]]
name = "node"
class = "one"
count = 3
"""
    needs = {"a": StageNeed(spread=Spread.NODE, memory_gb=2.0), "b": StageNeed(spread=Spread.NODE)}
    supply = Supply(["a", "b", "c"], {**needs, "c": StageNeed(spread=Spread.NODE)}, cluster(text))
    full = [StageSize(2), StageSize(2), StageSize(2)]
    places = supply.packed(full)
    assert places is not None
    assert all(len(set(stage)) == 2 for stage in places)
    tight = Supply(["a", "b"], {"a": replace(needs["a"], memory_gb=7.5), "b": needs["b"]}, cluster(text))
    assert tight.packed([StageSize(2), StageSize(1)]) is not None
    assert not tight.fits(
        [StageSize(2), StageSize(2)]
    )  # the third node has room for both, which may not share


def test_stages_that_must_stay_apart_are_packed_before_larger_ones() -> None:
    """One zone has a single node, which the larger stage would fill."""
    text = """
[[classes]]
name = "one"
cores = 2
memory_gb = 16
speed = 1.0

[[nodes]]
name = "first"
class = "one"
zone = "a"

[[nodes]]
name = "other"
class = "one"
zone = "b"
count = 2
"""
    needs = {"large": StageNeed(memory_gb=4.0), "apart": StageNeed(spread=Spread.ZONE)}
    places = Supply(["large", "apart"], needs, cluster(text)).packed([StageSize(4), StageSize(2)])
    assert places is not None
    assert 0 in places[1]


def test_memory_bounds_replicas_too() -> None:
    supply = Supply(["a"], {"a": StageNeed(memory_gb=5.0)}, cluster())
    assert supply.limit.tolist() == [[2, 3]]
    assert DEFAULT_MEMORY_GB > 0


@pytest.mark.parametrize(("memory_gb", "most"), [(8.0, 1), (4.0, 2), (0.8, 10), (0.1, 16)])
def test_replicas_fill_a_node_to_its_last_core_and_gigabyte(memory_gb: float, most: int) -> None:
    """A node of 16 cores and 8 GB."""
    one = Cluster((NodeClass(name="one", cores=16.0, memory_gb=8.0),), (Node("n", "one", "z"),))
    supply = Supply(["a", "b"], {name: StageNeed(memory_gb=memory_gb) for name in "ab"}, one)
    assert supply.limit.tolist() == [[most], [most]]
    for some in range(most + 1):
        assert supply.packed([StageSize(some), StageSize(most - some)]) is not None
        assert supply.packed([StageSize(some), StageSize(most - some + 1)]) is None


def test_predictions_go_before_the_speed_of_a_class() -> None:
    supply = Supply(["a"], {"a": StageNeed(speeds={"small": 0.8})}, cluster())
    assert supply.speed.tolist() == [[1.0, 0.8]]


def test_a_class_of_unknown_speed_is_refused() -> None:
    unknown = cluster(NODES.replace("speed = 0.5\n", ""))
    with pytest.raises(InputError, match=r"nodes: class 'small': its speed is not known"):
        Supply(["a"], {}, unknown)
    with pytest.raises(InputError, match=r"nodes: class 'small': its speed for stage 'a' is not known"):
        Supply(["a"], {"a": StageNeed(speeds={"large": 0.5})}, unknown)
    assert Supply(["a"], {"a": StageNeed(speeds={"small": 0.5})}, unknown).speed[0, 1] == 0.5


@pytest.mark.parametrize(
    ("zones", "places"), [(("a", "b", "c"), [1, 2, 0, 1, 2, 0]), (("a", "a", "b"), [1, 2, 0, 2, 1, 2])]
)
def test_replicas_go_where_fewest_of_their_stage_are_and_then_to_the_emptiest_node(
    zones: tuple[str, ...], places: list[int]
) -> None:
    alike = Cluster(
        (NodeClass(name="one", cores=4.0, memory_gb=8.0),),
        tuple(Node(f"n{node}", "one", zone) for node, zone in enumerate(zones)),
    )
    supply = Supply(["a"], {}, alike)
    assert supply.cluster is not None
    assert supply.speed.tolist() == [[1.0]]  # the only class there is may be that of the recording
    supply.cluster.cores[0] = 2.0
    found = supply.packed([StageSize(6)])
    assert found is not None
    assert found[0] == places
    assert StageSize(3) == StageSize(replicas=3, node_class=0, level=0)

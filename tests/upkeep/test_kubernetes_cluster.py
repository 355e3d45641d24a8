"""Replicas as pods: scales and nodes that an upkeep sets, by a model of Deployments; the API's answers."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from kwiken.allocator.workloads.profile import profiles_to_json
from kwiken.base.errors import InputError, KwikenError
from kwiken.cli.placing.options import placed_on
from kwiken.cli.placing.placement_inputs import Placed
from kwiken.cli.placing.standing_pods import standing_of
from kwiken.cli.placing.target_inputs import NOTHING, Standing
from kwiken.model.nodes.nodes import Node
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.node_classes.limit import Limit
from kwiken.upkeep.kubernetes import replicas as module
from kwiken.upkeep.kubernetes.nodes import KubernetesNodes, node_of
from tests.support.pods.deployments import DEPLOYMENT, Deployments, allocated, cluster_of, settled
from tests.support.pods.karpenter import refused_by_karpenter
from tests.support.runtime.clusters import profile
from tests.support.runtime.waiting import PATIENCE_S, until
from tests.support.services.single import service


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", 0.001)
    monkeypatch.setattr(module, "POLL_S", 0.001)
    monkeypatch.setattr(module, "CREATED_S", 0.05)
    monkeypatch.setattr(module, "RESIZED_S", 0.05)


async def test_what_is_wanted_at_the_start_is_there_and_no_more() -> None:
    async with settled(4, ("node-1", 0.5), ("node-2", 1.0)) as (there, _):
        assert there.where() == [("node-1", "500m"), ("node-2", "1000m")]
        assert there.scales[DEPLOYMENT] == 2
        # An upkeep that starts anew leaves what is right, and moves the rest.
        again = cluster_of(there)
        kept = next(name for name, pod in there.found.items() if pod["spec"]["nodeName"] == "node-2")
        found = await again.settle(
            {"work": [("a", ReplicaPlace("node-2", 2.0)), ("b", ReplicaPlace("node-3", 1.0))]}
        )
        assert found["a"] == kept
        assert there.where() == [("node-2", "2000m"), ("node-3", "1000m")]


async def test_replicas_are_started_resized_and_stopped() -> None:
    async with settled(4, ("node-0", 0.5)) as (there, cluster):
        name = await cluster.add_replica("work", ReplicaPlace("node-3", 1.5))
        assert there.where() == [("node-0", "500m"), ("node-3", "1500m")]
        assert not any(refused_by_karpenter(pod["spec"]) for pod in there.found.values())
        assert cluster.places[name] == ("work", ReplicaPlace("node-3", 1.5))
        await cluster.resize_replica(name, 2.0)
        assert ("node-3", "2000m") in there.where()
        await cluster.remove_replica(name)
        assert there.where() == [("node-0", "500m")]
        await cluster.remove_replica(name)  # it is gone: nothing happens
        assert there.scales[DEPLOYMENT] == 1


@pytest.mark.parametrize("reason", ["Deferred: node has no room", "Infeasible: node has only 2 cores"])
async def test_a_resize_that_the_kubelet_puts_off_is_told_and_not_believed(reason: str) -> None:
    async with settled(2, ("node-0", 0.5)) as (there, cluster):
        [name] = cluster.places
        there.no_room = reason
        with pytest.raises(KwikenError, match=rf"has 0\.5 cores, not 2: {reason}"):
            await cluster.resize_replica(name, 2.0)
        assert cluster.places[name] == ("work", ReplicaPlace("node-0", 0.5))
        watching = asyncio.create_task(cluster.watch())
        there.make_room()  # the kubelet resizes it after all
        async with asyncio.timeout(PATIENCE_S):
            while cluster.places[name][1].cores != 2.0:  # noqa: ASYNC110 - of a model
                await asyncio.sleep(0.001)
        watching.cancel()


async def test_a_pod_has_its_size_before_it_is_let_onto_a_node() -> None:
    async with settled(2, ("node-0", 0.5)) as (there, cluster):
        there.no_room = "Deferred: no pod on a node can be resized"
        await cluster.add_replica("work", ReplicaPlace("node-1", 1.5))
        assert there.where() == [("node-0", "500m"), ("node-1", "1500m")]


async def test_no_pod_ends_that_is_let_onto_a_node_at_the_start_while_the_controller_is_late() -> None:
    there = Deployments(3)
    there.scales[DEPLOYMENT] = 4  # as the export says, of which fewer are wanted
    there.reconcile()
    there.lag = 1
    cluster = cluster_of(there)
    wanted = [("a", ReplicaPlace("node-0", 0.5)), ("b", ReplicaPlace("node-1", 0.5))]
    found = await cluster.settle({"work": wanted})
    assert all(isinstance(name, str) and name in there.found for name in found.values()), found
    for _ in range(4):
        await cluster.look()
    assert there.where() == [("node-0", "500m"), ("node-1", "500m")]
    assert len(there.found) == there.scales[DEPLOYMENT] == 2


async def test_the_gateways_replicas_have_the_names_of_pods() -> None:
    async with settled(2, ("node-0", 0.5)) as (_, cluster):
        [name] = cluster.places
        figures = (await cluster.status())["runtime"]
        assert [replica["id"] for replica in figures["stages"]["work"]["replicas"]] == [name]


async def test_a_pod_that_ends_is_replaced_on_its_node_under_its_name() -> None:
    async with settled(4, ("node-0", 0.5), ("node-1", 0.7)) as (there, cluster):
        names = list(cluster.places)
        watching = asyncio.create_task(cluster.watch())
        gone = next(name for name, pod in there.found.items() if pod["spec"]["nodeName"] == "node-1")
        there.end(gone)
        async with asyncio.timeout(PATIENCE_S):
            while there.where() != [("node-0", "500m"), ("node-1", "700m")]:  # noqa: ASYNC110 - of a model
                await asyncio.sleep(0.001)
        assert list(cluster.places) == names
        await asyncio.sleep(0.02)
        figures = (await cluster.status())["runtime"]
        assert {replica["id"] for replica in figures["stages"]["work"]["replicas"]} == set(names)
        watching.cancel()


async def test_pods_of_another_version_take_the_places_of_the_old_ones() -> None:
    async with settled(4, ("node-0", 0.5), ("node-1", 0.7)) as (there, cluster):
        watching = asyncio.create_task(cluster.watch())
        there.version = "v2"
        old = list(there.found)
        for _ in old:  # one more than are wanted, then one of the old ones ends
            there.scales[DEPLOYMENT] += 1
            there.reconcile()
            async with asyncio.timeout(PATIENCE_S):
                while any("nodeName" not in pod["spec"] for pod in there.found.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            there.scales[DEPLOYMENT] -= 1
            there.reconcile()
        assert there.where() == [("node-0", "500m"), ("node-1", "700m")]
        assert not set(old) & set(there.found)
        watching.cancel()


async def test_a_node_that_is_not_ready_is_lost_and_can_be_given_up() -> None:
    async with settled(3, ("node-0", 0.5), ("node-1", 0.5)) as (there, cluster):
        there.ready_nodes["node-0"] = False
        await cluster.look()
        assert cluster.lost_nodes == ["node-0"]
        assert len(await cluster.drop_node("node-0")) == 1
        assert there.where() == [("node-1", "500m")]
        assert cluster.lost_nodes == []


async def test_pods_of_a_node_that_is_taken_away_pend_and_run_on_another_of_the_class() -> None:
    async with settled(1, ("node-0", 1.0), ("node-0", 0.5), cores=2.0) as (there, cluster):
        watching = asyncio.create_task(cluster.watch())
        there.take_node("node-0")
        await until(lambda: cluster.lost_nodes == ["node-0"])
        await cluster.drop_node("node-0")
        wanted = {"work": [("quick", 1.0), ("quick", 0.5)]}
        await cluster.pend(wanted)
        pending = dict(there.found)
        assert sorted(map(allocated, pending.values())) == ["1000m", "500m"]
        assert not any(pod["spec"].get("schedulingGates") for pod in pending.values())
        assert not any(refused_by_karpenter(pod["spec"]) for pod in pending.values())
        assert "hostname" not in json.dumps(pending)  # which Karpenter refused in preferences too
        await cluster.pend(wanted)  # as they are: nothing happens
        assert there.found == pending
        assert not cluster.joined.is_set()
        there.ready_nodes["node-9"] = True
        async with asyncio.timeout(PATIENCE_S):
            await cluster.joined.wait()
        watching.cancel()
        standing = await seen(there)
        assert {place.node for place in standing.replicas["work"]} == {"node-9"}
        again = cluster_of(there)
        places = [(f"key-{at}", place) for at, place in enumerate(standing.replicas["work"])]
        assert set((await again.settle({"work": places})).values()) == set(pending) == set(there.found)
        assert there.where() == [("node-9", "1000m"), ("node-9", "500m")]


async def test_pods_that_pend_are_given_up_where_they_are_not_wanted_and_by_a_restart() -> None:
    async with settled(1, ("node-0", 2.0), cores=2.0) as (there, cluster):
        await cluster.pend({"work": [("quick", 1.0), ("quick", 1.0)]})
        assert there.scales[DEPLOYMENT] == len(there.found) == 3
        await cluster.pend({"work": [("quick", 1.0)]})
        assert there.scales[DEPLOYMENT] == len(there.found) == 2
        again = cluster_of(there)
        await again.settle({"work": [("key", ReplicaPlace("node-0", 2.0))]})
        assert there.scales[DEPLOYMENT] == len(there.found) == 1
        await again.pend({"work": [("quick", 1.0)]})
        await again.pend({"work": []})
        assert there.where() == [("node-0", "2000m")]
        assert there.scales[DEPLOYMENT] == len(there.found) == 1


async def test_no_pod_pends_where_a_node_has_the_cores() -> None:
    async with settled(1, ("node-0", 0.5), cores=2.0) as (there, cluster):
        await cluster.pend({"work": [("quick", 1.5)]})
        assert there.scales[DEPLOYMENT] == 1


async def test_a_replica_counts_where_the_scheduler_let_it() -> None:
    async with settled(2, ("node-0", 0.5), cores=2.0) as (there, cluster):
        there.taken["node-0"] = 1.0
        name = await cluster.add_replica("work", ReplicaPlace("node-0", 1.0))
        assert cluster.places[name] == ("work", ReplicaPlace("node-1", 1.0))
        assert there.where() == [("node-0", "500m"), ("node-1", "1000m")]


async def test_a_replica_that_fits_nowhere_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNFIT_S", 0.0)
    async with settled(2, ("node-0", 0.5), cores=2.0) as (there, cluster):
        with pytest.raises(KwikenError, match="fits on no node of its class: no cores"):
            await cluster.add_replica("work", ReplicaPlace("node-1", 2.5))
        assert there.where() == [("node-0", "500m")]
        assert there.scales[DEPLOYMENT] == 1


async def test_a_deployment_that_makes_no_pod_is_told_and_its_scale_stays() -> None:
    async with settled(3, ("node-0", 0.5)) as (there, cluster):
        there.makes_pods = False
        with pytest.raises(KwikenError, match=r"the Deployment of stage 'work' made no pod within"):
            await cluster.add_replica("work", ReplicaPlace("node-1", 1.0))
        assert there.scales[DEPLOYMENT] == 1
        assert len(cluster.places) == 1


@pytest.mark.parametrize("seed", range(20))
async def test_scales_and_places_agree_after_any_course(seed: int) -> None:
    rng = random.Random(seed)
    async with settled(5, ("node-0", 0.5), ("node-1", 0.5)) as (there, cluster):
        watching = asyncio.create_task(cluster.watch())
        for _ in range(25):
            names = list(cluster.places)
            step = rng.choice(["add", "remove", "resize", "end"])
            if step == "add" or not names:
                place = ReplicaPlace(f"node-{rng.randrange(5)}", rng.choice([0.5, 1.0]))
                await cluster.add_replica("work", place)
            elif step == "remove":
                await cluster.remove_replica(rng.choice(names))
            elif step == "resize":
                await cluster.resize_replica(rng.choice(names), rng.choice([0.5, 1.0, 2.0]))
            else:
                there.end(rng.choice(list(there.found)))
                async with asyncio.timeout(PATIENCE_S):
                    while any("nodeName" not in pod["spec"] for pod in there.found.values()):  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
            assert there.scales[DEPLOYMENT] == len(cluster.places)
        wanted = sorted((place.node, f"{1000 * place.cores:.0f}m") for _, place in cluster.places.values())
        assert there.where() == wanted
        watching.cancel()


DOCUMENTS = {
    "nodes": """
classes = [{ name = "quick", cores = 4, memory_gb = 8, speed = 1.0 }]
nodes = [{ name = "example", class = "quick" }]
""",
    "workloads": """
[[workloads]]
name = "single/work"
memory_gb = 0.1
service = "single"
stage = "work"
spread = "node"
target = { rate_per_s = 60, p99_ms = 500 }
""",
    "profiles": profiles_to_json(
        (profile({0.5: 50.0, 1: 100.0, 2: 200.0}, {"quick": 1.0}, name="single/work"),)
    ),
}


def placed_beside(folder: Path, standing: Standing, nodes: int = 4) -> Placed:
    """What an upkeep that starts would keep on some nodes."""
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    paths = {name: str(folder / name) for name in DOCUMENTS}
    found = [Node(f"node-{number}", "quick") for number in range(nodes)]
    return placed_on(found, service, **paths, target_p99=(), standing=standing)


async def seen(there: Deployments) -> Standing:
    """What stands, by the API's objects."""
    return standing_of(
        await there.all_pods(), await there.nodes(), "single", "n", {"work": "work"}, there.ready_nodes
    )


async def test_a_restarted_upkeep_starts_from_what_stands(tmp_path: Path) -> None:
    """By its measurements an upkeep had made three replicas of two cores, where the prediction asks for less."""
    fresh = placed_beside(tmp_path, NOTHING)
    assert fresh.adaptation is not None
    assert sum(cores for _, _, cores in fresh.adaptation.keys["single/work"]) < 6.0
    course = [("node-3", 2.0), ("node-1", 2.0), ("node-2", 2.0)]
    async with settled(4, *course, cores=4.0) as (there, cluster):
        cluster.learned = lambda: {"work": 1.5}
        watching = asyncio.create_task(cluster.watch())
        async with asyncio.timeout(PATIENCE_S):
            while (await seen(there)).learned != {"work": 1.5}:  # noqa: ASYNC110 - of a model
                await asyncio.sleep(0.001)
        watching.cancel()
        before, pods = there.where(), set(there.found)
        standing = await seen(there)
        placed = placed_beside(tmp_path, standing)
        assert placed.adaptation is not None
        assert placed.assignment is not None
        assert placed.adaptation.learned == {"single/work": 1.5}
        again = cluster_of(there)
        found = await again.settle(placed.assignment.keys_by_stage(placed.adaptation.keys))
        assert there.where() == before
        assert set(there.found) == pods == set(found.values())


async def test_cores_of_other_pods_are_not_there(tmp_path: Path) -> None:
    there = Deployments(2, cores=4.0)
    there.others = [
        {
            "metadata": {"name": "gateway", "namespace": "n", "labels": {}},
            "spec": {
                "nodeName": "node-0",
                "containers": [{"name": "x", "resources": {"requests": {"cpu": "3600m"}}}],
            },
            "status": {"phase": phase},
        }
        for phase in ("Running", "Succeeded")
    ]
    standing = await seen(there)
    assert standing.free_cores == {"node-0": pytest.approx(0.4), "node-1": 4.0}
    adaptation = placed_beside(tmp_path, standing, nodes=2).adaptation
    assert adaptation is not None
    assert {node for _, node, _ in adaptation.keys["single/work"]} == {"node-1"}


def test_a_stage_for_which_no_node_has_room_at_the_start_lacks_replicas_of_a_class(tmp_path: Path) -> None:
    full = Standing(free_cores={"node-0": 0.0})
    adaptation = placed_beside(tmp_path, full, nodes=1).adaptation
    assert adaptation is not None
    assert adaptation.keys["single/work"] == []
    lacking = adaptation.on_new_nodes()["single/work"]
    assert {node_class for node_class, _ in lacking} == {"quick"}


def test_the_class_of_a_node_is_a_label() -> None:
    labels = {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a"}
    found: dict[str, Any] = {"metadata": {"name": "n", "labels": labels}}
    assert (node_of(found).node_class, node_of(found).zone) == ("m5.large", "a")
    labels["kwiken/class"] = "quick"
    assert node_of(found).node_class == "quick"
    assert node_of({"metadata": {"name": "n"}}).node_class == ""


async def test_nodes_that_are_not_ready_or_cordoned_are_not_used() -> None:
    nodes = KubernetesNodes("ab")
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    nodes.see(
        [
            {"metadata": {"name": "a"}, "status": ready},
            {"metadata": {"name": "b"}, "status": ready, "spec": {"unschedulable": True}},
        ]
    )
    assert nodes.usable == {"a"}
    nodes.add_node("a", Limit(1.0))
    with pytest.raises(KwikenError, match="node b is not ready, or cordoned"):
        nodes.add_node("b", Limit(1.0))
    with pytest.raises(InputError, match="starts no commands"):
        await nodes.start(["true"], name="x", limit=None, node="a")

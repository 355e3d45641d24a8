"""Placements as Compose and Kubernetes: resources, nodes, spread, names that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from kwiken.export.placements.manifests import MANIFESTS
from kwiken.model.nodes.nodes import Cluster, Node
from kwiken.model.nodes.placement import Placement
from kwiken.upkeep.kubernetes.nodes import node_of
from papers.worlds.schedulers.names import scheduler
from tests.support.pods.karpenter import refused_by_karpenter
from tests.support.project.commands import refused, run
from tests.support.runtime.clusters import cluster, profile, requested


def placed(*names: str, spread: Spread = Spread.NODE, nodes: Cluster | None = None) -> Placement:
    found = cluster({"top": 6}, zones=3) if nodes is None else nodes
    asked = [
        requested(31e3, profile({4: 11e3, 8: 20e3}, {"top": 1.0}, name=name), found, spread=spread)
        for name in names
    ]
    admissions = admit_all(asked, NodeLedger(found), scheduler("quasar"))
    return document(found, admissions, scheduler="quasar", confidence=0.5)


def patches(placement: Placement) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFESTS["kubernetes"](placement, where="p")))


def test_kubernetes_gets_every_replica_with_its_size_and_nodes() -> None:
    placement = placed("Look Up")
    found = patches(placement)
    assert [patch["metadata"]["name"] for patch in found] == ["look-up-8000m", "look-up-4000m"]
    by_cores = {8000: "8000m", 4000: "4000m"}
    for patch, cores in zip(found, (8.0, 4.0), strict=True):
        nodes = [one.node for one in placement.workloads[0].replicas if one.cores == cores]
        pod = patch["spec"]["template"]["spec"]
        assert patch["spec"]["replicas"] == len(nodes)
        amounts = {"cpu": by_cores[int(cores * 1000)], "memory": "953Mi"}
        assert pod["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
        (wish,) = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        (rule,) = wish["preference"]["matchExpressions"]
        assert (rule["key"], rule["operator"], rule["values"]) == ("kubernetes.io/hostname", "In", nodes)


def selects(terms: list[dict[str, Any]], labels: dict[str, str]) -> bool:
    """Whether terms of a node selector take a node, as the API has it: one term, with all its rules."""
    meets = {
        "In": lambda rule: labels.get(rule["key"]) in rule["values"],
        "DoesNotExist": lambda rule: rule["key"] not in labels,
    }
    return any(all(meets[rule["operator"]](rule) for rule in term["matchExpressions"]) for term in terms)


@pytest.mark.parametrize(
    ("labels", "taken"),
    [
        ({"node.kubernetes.io/instance-type": "top", "kubernetes.io/hostname": "came-later"}, True),
        ({"node.kubernetes.io/instance-type": "m5.large", "kwiken/class": "top"}, True),
        ({"node.kubernetes.io/instance-type": "top", "kwiken/class": "slow"}, False),
        ({"node.kubernetes.io/instance-type": "m5.large", "kubernetes.io/hostname": "top-0"}, False),
        ({}, False),
    ],
)
def test_a_node_that_comes_later_takes_pods_if_upkeep_gives_it_their_class(
    labels: dict[str, str], taken: bool
) -> None:
    assert (node_of({"metadata": {"name": "n", "labels": labels}}).node_class == "top") is taken
    for patch in patches(placed("a")):
        affinity = patch["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert selects(terms, labels) is taken
        assert refused_by_karpenter(patch["spec"]["template"]["spec"]) == []


@pytest.mark.parametrize(("spread", "zones"), [(Spread.NODE, [1]), (Spread.NONE, [1]), (Spread.ZONE, [])])
def test_pods_are_spread_over_zones_where_the_placement_is(spread: Spread, zones: list[int]) -> None:
    nodes = cluster({"top": 3}, zones=3)
    for patch in patches(placed("a", spread=spread, nodes=nodes)):
        rules = patch["spec"]["template"]["spec"]["topologySpreadConstraints"]
        soft = [one for one in rules if one["whenUnsatisfiable"] == "ScheduleAnyway"]
        assert [one["maxSkew"] for one in soft] == (zones if patch["spec"]["replicas"] > 1 else [])
        assert all(one["topologyKey"] == "topology.kubernetes.io/zone" for one in soft)


@pytest.mark.parametrize(
    ("spread", "key"),
    [
        (Spread.NODE, "kubernetes.io/hostname"),
        (Spread.ZONE, "topology.kubernetes.io/zone"),
        (Spread.NONE, None),
    ],
)
def test_anti_affinity_holds_over_all_sizes_of_a_workload(spread: Spread, key: str | None) -> None:
    for patch in patches(placed("a", spread=spread)):
        template = patch["spec"]["template"]
        rules = template["spec"]["affinity"].get("podAntiAffinity", {})
        found = rules.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        assert [rule["topologyKey"] for rule in found] == ([key] if key else [])
        for rule in found:
            assert rule["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_compose_gets_a_service_for_each_node() -> None:
    placement = placed("a", "b")
    services = yaml.safe_load(MANIFESTS["compose"](placement, where="p"))["services"]
    there = [(one.node, one.cores) for work in placement.workloads for one in work.replicas]
    found = [
        (service["deploy"]["placement"]["constraints"][0].removeprefix("node.hostname=="),
         float(service["deploy"]["resources"]["limits"]["cpus"]))
        for service in services.values()
        for _ in range(service["deploy"]["replicas"])
    ]  # fmt: skip
    assert sorted(found) == sorted(there)


def test_names_that_cannot_be_used_are_refused() -> None:
    for program in MANIFESTS:
        with pytest.raises(InputError, match=r"^p: workloads 'a-b' and 'a_b' would both be"):
            MANIFESTS[program](placed("a-b", "a_b"), where="p")
        with pytest.raises(InputError, match=r"^p: workload '!' has no letter"):
            MANIFESTS[program](placed("!"), where="p")
    odd = cluster({"top": 2})
    nodes = Cluster(odd.classes, tuple(Node(f"No {place}", "top") for place in range(2)))
    with pytest.raises(InputError, match=r"^p: node 'No 0' is no name of a Kubernetes node"):
        patches(placed("a", nodes=nodes))
    found = placed("a")
    odd_class = [msgspec.structs.replace(one, node_class="m5 large") for one in found.nodes]
    with pytest.raises(InputError, match=r"^p: class 'm5 large' is no value of a Kubernetes label"):
        patches(msgspec.structs.replace(found, nodes=tuple(odd_class)))


def test_the_verb_writes_manifests(tmp_path: Path) -> None:
    file = tmp_path / "placement.json"
    file.write_text(placed("a").to_json())
    for program in MANIFESTS:
        result = run("export", str(file), "--to", program)
        assert result.exit_code == 0, result.stderr
        assert list(yaml.safe_load_all(result.stdout))
    refused(run("export", str(file), "--to", "compose", "--map", "x"), "--map and --template do not go with")
    file.write_text(json.dumps({"version": 7}))
    refused(run("export", str(file), "--to", "compose"), "placement.json: version must be 1, not 7")

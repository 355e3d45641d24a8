"""Provisions as node pools of Karpenter: capacity types, weights, limits and idle times."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from kwiken.allocator.provisioning.document import ChosenOffer, Provision
from kwiken.allocator.provisioning.offers import Terms
from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.export.yaml import dump
from kwiken.model.nodes.nodes import TYPE_LABEL

API: Final = "karpenter.sh/v1"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INTERRUPTIBLE: Final = "kwiken/interruptible"  # taint of spot nodes, for pods that may be interrupted
# Weights: what is paid already is filled first, then spot by those that tolerate it, then on demand.
RESERVED_WEIGHT, SPOT_WEIGHT, ON_DEMAND_WEIGHT = 100, 60, 40
MAX_NAME: Final = 63
_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_NODE_CLASS: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def karpenter_pools(provision: Provision, *, where: str) -> str:
    """Node pools in YAML, one for each offer.

    Classes of nodes are taken for instance types. The limit of a reserved pool is the number of reserved
    nodes, which are kept while idle, since they are paid for. Spot nodes have a taint.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for an offer or a class whose name Kubernetes does not take, two offers that would get one
            name, or more offers of one kind than there are weights.
    """
    documents = []
    names: dict[str, str] = {}
    ranks = dict.fromkeys(Terms, 0)
    for place, offer in enumerate(provision.offers):
        name = re.sub(r"[^a-z0-9]+", "-", offer.name.lower())[:MAX_NAME].strip("-")
        if not name:
            raise InputError(f"offers[{place}].name: {offer.name!r} has no letter or digit", where=where)
        if name in names:
            raise InputError(f"offers {names[name]!r} and {offer.name!r} would both be {name!r}", where=where)
        names[name] = offer.name
        if not _VALUE.match(offer.node_class):
            raise InputError(
                f"offers[{place}].class: {offer.node_class!r} is no instance type of Kubernetes", where=where
            )
        documents.append(((_words(offer),), _pool(name, offer, ranks[offer.terms], where)))
        ranks[offer.terms] += 1
    header = [
        f"Node pools for prices of {printable(provision.prices_of)} ({printable(provision.source)}).",
        "Classes of nodes are taken for instance types; set nodeClassRef to your own node class.",
    ]
    if provision.spot is not None:
        header.append(
            f"Pods that may be interrupted tolerate {INTERRUPTIBLE}. Karpenter falls back at once when spot "
            f"is short; the decision waits {provision.spot.wait_s:g} s first, which is no setting there."
        )
    return dump(documents, header)


def _words(offer: ChosenOffer) -> str:
    if offer.terms is Terms.RESERVED:
        return f"{printable(offer.name)}: {offer.nodes} nodes reserved for {offer.term_days} days."
    return f"{printable(offer.name)}: rented as needed at {offer.price_per_hour:g} an hour."


def _pool(name: str, offer: ChosenOffer, rank: int, where: str) -> dict[str, Any]:
    # A reservation is a lower price for on-demand nodes, or capacity that is set aside.
    capacity = {
        Terms.RESERVED: (["reserved", "on-demand"], RESERVED_WEIGHT),
        Terms.SPOT: (["spot"], SPOT_WEIGHT),
        Terms.ON_DEMAND: (["on-demand"], ON_DEMAND_WEIGHT),
    }
    types, weight = capacity[offer.terms]
    if rank >= ON_DEMAND_WEIGHT // 2:
        raise InputError(f"more than {ON_DEMAND_WEIGHT // 2} offers are {offer.terms.value}", where=where)
    template: dict[str, Any] = {
        "nodeClassRef": dict(_NODE_CLASS),
        "requirements": [
            {"key": TYPE_LABEL, "operator": "In", "values": [offer.node_class]},
            {"key": CAPACITY_TYPE, "operator": "In", "values": types},
        ],
    }
    if offer.terms is Terms.SPOT:
        template["taints"] = [{"key": INTERRUPTIBLE, "effect": "NoSchedule"}]
    reserved = offer.terms is Terms.RESERVED
    idle = "Never" if reserved else f"{max(1, math.ceil(offer.keep_idle_s))}s"
    spec: dict[str, Any] = {
        "weight": weight - rank,
        "template": {"spec": template},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": idle},
    }
    if reserved:
        spec["limits"] = {"nodes": str(offer.nodes)}
    return {"apiVersion": API, "kind": "NodePool", "metadata": {"name": name}, "spec": spec}

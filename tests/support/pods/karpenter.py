"""Rule of Karpenter for labels of nodes in pods: of a pod that breaks it, it makes no node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

# By kubernetes-sigs/karpenter, pkg/apis/v1/labels.go and pkg/controllers/provisioning/provisioner.go: fields are
# refused, and so are labels of these domains but some. Preferences are free since its pull request 2182.
RESTRICTED_DOMAINS: Final = ("kubernetes.io", "k8s.io", "karpenter.sh")
EXCEPTED_DOMAINS: Final = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
WELL_KNOWN: Final = frozenset(
    {
        "karpenter.sh/nodepool",
        "karpenter.sh/capacity-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
    }
)


def refused_by_karpenter(spec: Mapping[str, Any]) -> list[str]:
    """Labels and fields of nodes in a pod's specification for which Karpenter refuses the pod."""
    return [name for name in _required(spec) if name not in WELL_KNOWN and _restricted(name)]


def _restricted(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return not slash or (domain.endswith(RESTRICTED_DOMAINS) and not domain.endswith(EXCEPTED_DOMAINS))


def _required(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        yield from (f"matchFields {one['key']}" for one in term.get("matchFields") or ())
        yield from (one["key"] for one in term.get("matchExpressions") or ())

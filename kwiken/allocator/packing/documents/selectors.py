"""Rules of Kubernetes for labels and taints: selectors, node affinity, tolerations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def wants_pod(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes an object; an empty selector takes all."""
    wanted = selector.get("matchLabels") or {}
    rules = selector.get("matchExpressions") or []
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(rule, labels) for rule in rules
    )


def wants_node(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a pod's node selector and required node affinity take a node.

    Args:
        spec: `spec` of the pod.
        labels: labels of the node.
    """
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term(term, labels) for term in required.get("nodeSelectorTerms") or [])


def tolerates(tolerations: Sequence[Mapping[str, Any]], taints: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pod tolerates all taints of a node that keep pods away."""
    return all(
        any(_tolerated(one, taint) for one in tolerations)
        for taint in taints
        if taint.get("effect") in {"NoSchedule", "NoExecute"}
    )


def _tolerated(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint.get("key")}
    same = toleration.get("key") == taint.get("key")
    return same and (toleration.get("value") or "") == (taint.get("value") or "")


def _term(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """A term of a node affinity; a term without rules takes nothing."""
    rules = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not rules and not fields:
        return False
    named = {"metadata.name": labels.get("kubernetes.io/hostname", "")}
    return all(_holds(rule, labels) for rule in rules) and all(_holds(rule, named) for rule in fields)


def _holds(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(rule.get("key")))
    values = rule.get("values") or []
    first = values[0] if values else None
    answers = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": _number(value) > _number(first),
        "Lt": _number(value) < _number(first),
    }
    return answers.get(str(rule.get("operator")), False)  # an operator of a later release takes nothing


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return float("nan")

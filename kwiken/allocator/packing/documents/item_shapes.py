"""Kinds of the fields that packing reads in items of Kubernetes, checked before any of them is read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert

_Texts = dict[str, str] | None
_Amounts = dict[str, str | int | float] | None


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    """Fields that are not named here are left alone, and each may be missing or null."""


class _Owner(_Shape, frozen=True, rename="camel"):
    kind: str | None = None
    name: str | None = None
    controller: bool | None = None


class _Metadata(_Shape, frozen=True, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    labels: _Texts = None
    annotations: _Texts = None
    owner_references: list[_Owner] | None = None


class _Taint(_Shape, frozen=True, rename="camel"):
    key: str | None = None
    value: str | None = None
    effect: str | None = None
    operator: str | None = None  # of a toleration


class _Condition(_Shape, frozen=True, rename="camel"):
    type: str | None = None
    status: str | None = None


class _NodeSpec(_Shape, frozen=True, rename="camel"):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _NodeStatus(_Shape, frozen=True, rename="camel"):
    allocatable: _Amounts = None
    capacity: _Amounts = None
    conditions: list[_Condition] | None = None


class _NodeItem(_Shape, frozen=True, rename="camel"):
    metadata: _Metadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Rule(_Shape, frozen=True, rename="camel"):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class _Selector(_Shape, frozen=True, rename="camel"):
    match_labels: _Texts = None
    match_expressions: list[_Rule] | None = None


class _Term(_Shape, frozen=True, rename="camel"):
    match_expressions: list[_Rule] | None = None
    match_fields: list[_Rule] | None = None


class _Terms(_Shape, frozen=True, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _Spread(_Shape, frozen=True, rename="camel"):
    label_selector: _Selector | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None


class _NodeAffinity(
    _Shape, frozen=True, rename={"required": "requiredDuringSchedulingIgnoredDuringExecution"}
):
    required: _Terms | None = None


class _PodAffinity(
    _Shape, frozen=True, rename={"required": "requiredDuringSchedulingIgnoredDuringExecution"}
):
    required: list[_Spread] | None = None


class _Affinity(_Shape, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


class _Resources(_Shape, frozen=True, rename="camel"):
    requests: _Amounts = None
    limits: _Amounts = None


class _Port(_Shape, frozen=True, rename="camel"):
    host_port: int | None = None


class _Container(_Shape, frozen=True, rename="camel"):
    name: str | None = None
    resources: _Resources | None = None
    restart_policy: str | None = None
    ports: list[_Port] | None = None


class _EmptyDir(_Shape, frozen=True, rename="camel"):
    medium: str | None = None


class _Volume(_Shape, frozen=True, rename="camel"):
    empty_dir: _EmptyDir | None = None


class _PodSpec(_Shape, frozen=True, rename="camel"):
    node_name: str | None = None
    node_selector: _Texts = None
    affinity: _Affinity | None = None
    tolerations: list[_Taint] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: _Amounts = None
    volumes: list[_Volume] | None = None
    topology_spread_constraints: list[_Spread] | None = None
    priority: int | None = None


class _PodStatus(_Shape, frozen=True, rename="camel"):
    phase: str | None = None


class _PodItem(_Shape, frozen=True, rename="camel"):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _BudgetSpec(_Shape, frozen=True, rename="camel"):
    selector: _Selector | None = None


class _BudgetItem(_Shape, frozen=True, rename="camel"):
    metadata: _Metadata | None = None
    spec: _BudgetSpec | None = None
    status: dict[str, Any] | None = None


_SHAPES: Final[dict[str, type[_Shape]]] = {
    "Node": _NodeItem,
    "Pod": _PodItem,
    "PodDisruptionBudget": _BudgetItem,
}


def check_item(kind: str, item: dict[str, Any], *, path: str, where: str) -> None:
    """Check that the fields of an item that are read are of the kinds that Kubernetes writes.

    Args:
        kind: kind of the item; items of kinds that are not read are not checked.
        item: item as plain values.
        path: place of the item in the document, such as `items[0]`.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the field that is of another kind.
    """
    shape = _SHAPES.get(kind)
    if shape is None:
        return
    try:
        convert(item, shape, where=where)
    except InputError as error:
        raise InputError(f"{path}.{error.problem}", where=where) from error

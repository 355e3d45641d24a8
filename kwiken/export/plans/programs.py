"""Exporters by name of the program: gRPC, Envoy, Istio."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from kwiken.base.errors import InputError
from kwiken.export.plans.calls import StageAddress
from kwiken.export.plans.envoy import envoy_bootstrap
from kwiken.export.plans.grpc import grpc_config
from kwiken.export.plans.hedges import NEEDS_GRPC, NEEDS_HOST, Exported, missing_entries
from kwiken.export.plans.istio import istio_documents
from kwiken.model.plan.plan import Plan


class Exporter(Protocol):
    """Exporter of a plan's reissues as settings of one program."""

    def __call__(self, plan: Plan, targets: Mapping[str, StageAddress], *, where: str = "plan") -> Exported:
        """Settings, with notes on what they lose; `where` is the plan's name in errors."""


def missing_calls(plan: Plan, targets: Mapping[str, StageAddress], program: str) -> dict[str, dict[str, Any]]:
    """Entries of a map for all reissued stages whose calls a program's settings lack; empty for none."""
    return missing_entries(plan, targets, needs=NEEDS_GRPC if program == "grpc" else NEEDS_HOST)


def export_plan(
    plan: Plan, *, to: str, targets: Mapping[str, StageAddress] | None = None, where: str = "plan"
) -> Exported:
    """Export a plan's reissues as settings of a program.

    Args:
        to: name of the program: grpc, envoy or istio.
        targets: calls of stages whose spans do not say them, by name of the stage.
        where: name of the plan in errors.

    Raises:
        InputError: the program is unknown, or its settings lack a call; names the stage.
    """
    if to not in PROGRAMS:
        raise InputError(f"must be one of {', '.join(PROGRAMS)}, not {to!r}", where="to")
    return PROGRAMS[to](plan, targets or {}, where=where)


PROGRAMS: Final[Mapping[str, Exporter]] = MappingProxyType(
    {"grpc": grpc_config, "envoy": envoy_bootstrap, "istio": istio_documents}
)

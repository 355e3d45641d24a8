"""Plans to export, and strict readers of exported files."""

from __future__ import annotations

import json
from typing import Any

import yaml

from kwiken.export.plans.hedges import Exported
from kwiken.model.plan.plan import Budgets, Costs, Plan, SpanMatch, StagePlan
from kwiken.model.service.stage import Reissue


def plan_with(stages: dict[str, StagePlan], *, reissue: float = 0.05, service: str = "shop") -> Plan:
    """Plan whose stages have equal costs."""
    return Plan(
        version=1,
        service=service,
        created="2026-01-01T00:00:00Z",
        profile="sha256:0",
        budgets=Budgets(reissue=reissue),
        cost=Costs(model="typical", stages=dict.fromkeys(stages, 1 / max(1, len(stages)))),
        stages=stages,
    )


def stage(
    operation: str, reissue: Reissue | None = None, *, service: str = "cart", turn: int = 1
) -> StagePlan:
    """Stage whose calls are spans of a given name."""
    return StagePlan(match=SpanMatch(service=service, operation=operation, occurrence=turn), reissue=reissue)


def read_yaml(exported: Exported) -> list[Any]:
    """Documents of an export, read by full YAML 1.1, unlike the writer's rules."""
    return [document for document in yaml.safe_load_all(exported.text) if document is not None]


def read_json(exported: Exported) -> Any:
    """The only document of an export."""
    return json.loads(exported.text)


def comments(exported: Exported) -> str:
    """Comments of an export, unwrapped."""
    lines = [line[1:].strip() for line in exported.text.splitlines() if line.startswith("#")]
    return " ".join(lines)

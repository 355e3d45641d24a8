"""The tables of docs/operate/metrics.md, the alerts and the board name the metrics that the code has, no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import Metric, MetricKind
from kwiken.otel.metrics.prometheus import prometheus_label, prometheus_name
from tests.support.project.site_tables import generated

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "kwiken" / "export" / "deployments"
PAGE = (ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
GROUPS = (
    ("gateway", catalog.GATEWAY),
    ("replica", catalog.REPLICAS),
    ("process", (*catalog.BOTH, catalog.TARGET_INFO)),
)
NAMED = re.compile(r"\b(?:kw|http_server|process)_[a-z0-9_]+\b")
LABELS = {prometheus_label(label) for metric in catalog.ALL for label in metric.labels} | {"kw_gateway"}


@pytest.mark.parametrize(
    ("group", "metrics"), GROUPS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_page_has_every_metric(group: str, metrics: Sequence[Metric]) -> None:
    assert f"```{{generated}} metrics {group}\n" in PAGE
    lines = generated("metrics", group).splitlines()[2:]
    assert len(lines) == len(metrics)
    for line, metric in zip(lines, metrics, strict=True):
        assert line.startswith(f"| `{prometheus_name(metric)}` | {metric.kind.value}")
        assert all(f"`{prometheus_label(label)}`" in line for label in metric.labels)
        assert metric.help in line
        assert metric.question in line


def samples() -> set[str]:
    """Names of all samples, as queries use them."""
    names = set()
    for metric in catalog.ALL:
        name = prometheus_name(metric)
        names |= (
            {f"{name}_{part}" for part in ("bucket", "sum", "count")}
            if metric.kind is MetricKind.HISTOGRAM
            else {name}
        )
    return names


def expressions(document: Any) -> Iterator[str]:
    """Every query in alerts or in a board."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key in {"expr", "query"} and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(document, list):
        for each in document:
            yield from expressions(each)


def documents() -> list[tuple[str, Any]]:
    alerts = yaml.safe_load((MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    board = json.loads((MONITORING / "grafana-board.json").read_text(encoding="utf-8"))
    return [("alerts", alerts), ("board", board)]


@pytest.mark.parametrize(("name", "document"), documents())
def test_alerts_and_board_ask_for_metrics_that_exist(name: str, document: Any) -> None:
    asked = {found for text in expressions(document) for found in NAMED.findall(text)}
    assert len(asked) > 5, name
    assert asked - LABELS <= samples()


def test_every_panel_and_alert_says_what_it_is_for() -> None:
    alerts, board = (document for _, document in documents())
    assert all(panel["description"].endswith(("?", ".")) for panel in board["panels"])
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert all({"summary", "severity"} <= {*rule["annotations"], *rule["labels"]} for rule in rules)

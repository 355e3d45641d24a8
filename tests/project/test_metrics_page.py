"""docs/operate/metrics.md, the alerts and the board name the metrics that the code has, and no others."""

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
from kwiken.otel.metrics.names import prometheus_label, prometheus_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
SECTIONS = (
    ("## Of gateways", catalog.GATEWAY),
    ("## Of replicas", catalog.REPLICAS),
    ("## Of every process", (*catalog.BOTH, catalog.TARGET_INFO)),
)
NAMED = re.compile(r"\b(?:kw|http_server|process)_[a-z0-9_]+\b")
LABELS = {prometheus_label(label) for metric in catalog.ALL for label in metric.labels} | {"kw_gateway"}


def row(metric: Metric) -> str:
    """Line of the table for one metric."""
    labels = " ".join(f"`{prometheus_label(label)}`" for label in metric.labels) or "-"
    unit = metric.unit.strip("{}") or "-"
    return f"| `{prometheus_name(metric)}` | {metric.kind.value}, {unit} | {labels} | {metric.help} *{metric.question}* |"


def table_of(heading: str) -> list[str]:
    section = PAGE.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(
    ("heading", "metrics"), SECTIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_page_has_every_metric(heading: str, metrics: Sequence[Metric]) -> None:
    assert table_of(heading) == [row(metric) for metric in metrics]


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
    alerts = yaml.safe_load((ROOT / "otel" / "alerts.yml").read_text(encoding="utf-8"))
    board = json.loads((ROOT / "otel" / "grafana-board.json").read_text(encoding="utf-8"))
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

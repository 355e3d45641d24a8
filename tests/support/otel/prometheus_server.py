"""A Prometheus on a free port that evaluates sums of series which it is given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.peers.http_servers import Asked, Told, http_server

Vector = list[dict[str, Any]]


def grouped(vector: Vector, by: list[str]) -> Vector:
    """Sum by labels, as Prometheus does it."""
    sums: dict[tuple[tuple[str, str], ...], Any] = {}
    kept: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for each in vector:
        key = tuple((label, each["metric"][label]) for label in by if label in each["metric"])
        kept.setdefault(key, each)
        if "value" in each:
            sums[key] = sums.get(key, 0.0) + float(each["value"][1])
    return [
        {"metric": dict(key)}
        | ({"value": [0.0, str(sums[key])]} if key in sums else {"histogram": first["histogram"]})
        for key, first in kept.items()
    ]


@contextmanager
def prometheus(
    answers: Mapping[str, Vector] | Callable[[str], tuple[int, bytes]],
    *,
    base: str = "",
    token: str | None = None,
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """A Prometheus on a free port; its address, and the expressions asked for, each with its moment."""

    def respond(asked: Asked) -> Told:
        parts = urlsplit(asked.path)
        assert parts.path == f"{base}/api/v1/query"
        if token is not None and asked.headers["Authorization"] != f"Bearer {token}":
            return Told(b"{}", 401)
        words = parse_qs(parts.query)
        expression = words["query"][0]
        queries.append((expression, float(words["time"][0])))
        if callable(answers):
            status, body = answers(expression)
            return Told(body, status)
        by = expression.partition("sum by (")[2].partition(")")[0].split(", ")
        selector = re.search(r"\((\w+)(?:{(\w+)=\"(\w+)\"})?\[", expression)
        assert selector is not None
        metric, label, value = selector.groups()
        found = [
            each for each in answers.get(metric, []) if label is None or each["metric"].get(label) == value
        ]
        result = grouped(found, by) if "sum by" in expression else found
        return Told(
            json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        )

    queries: list[tuple[str, float]] = []
    with http_server(respond) as server:
        yield f"prometheus://{server.address}{base}", queries

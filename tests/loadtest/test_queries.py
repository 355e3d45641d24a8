"""Query mixes of the load generator: Zipf draws, templates and refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.queries import Queries, parse_queries


def write(folder: Path, text: str, name: str = "queries.txt") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def bodies(queries: Queries) -> list[object]:
    return [json.loads(body) for body in queries.bodies]


@given(count=st.integers(2, 200), zipf=st.floats(0, 3), seed=st.integers(0, 2**32))
def test_draws_fall_off_like_zipf(count: int, zipf: float, seed: int) -> None:
    draws = Queries((b"{}",) * count, zipf=zipf).draw(np.random.default_rng(seed), 20_000)
    assert draws.min() >= 0
    assert draws.max() < count
    weights = np.arange(1, count + 1) ** -zipf
    shares = weights / weights.sum()
    seen = np.bincount(draws, minlength=count) / len(draws)
    assert np.all(np.abs(seen - shares) < 6 * np.sqrt(shares / len(draws)) + 6 / len(draws))


def test_the_same_seed_draws_the_same() -> None:
    queries = Queries((b"1", b"2", b"3"))
    first, second = (queries.draw(np.random.default_rng(3), 100) for _ in range(2))
    assert np.array_equal(first, second)


def test_text_lines_become_bodies(tmp_path: Path) -> None:
    path = write(tmp_path, 'asyncio gather\n  "quoted" \\ back\nnull\nünïcode\n')
    assert bodies(parse_queries(path, body=None)) == [
        {"query": "asyncio gather"},
        {"query": '"quoted" \\ back'},
        {"query": "null"},
        {"query": "ünïcode"},
    ]


def test_a_template_takes_the_query_wherever_its_mark_stands(tmp_path: Path) -> None:
    path = write(tmp_path, "a b\n")
    template = '{"q": ["{query}", {"x": "about {query}!"}], "limit": 5, "{query}": null}'
    assert bodies(parse_queries(path, body=template)) == [
        {"q": ["a b", {"x": "about a b!"}], "limit": 5, "{query}": None}
    ]


def test_json_lines_are_bodies(tmp_path: Path) -> None:
    path = write(tmp_path, '{"a": 1}\n[2]\n"three"\n', "bodies.jsonl")
    assert bodies(parse_queries(path, body=None)) == [{"a": 1}, [2], "three"]


def test_one_body_for_all() -> None:
    assert bodies(parse_queries(None, body='{"query": "x"}')) == [{"query": "x"}]
    assert bodies(parse_queries(None, body=None)) == [{}]


@pytest.mark.parametrize(
    ("name", "text", "body", "message"),
    [
        ("q.txt", "", None, "q.txt: is empty"),
        ("q.txt", "one\n\nthree\n", None, "q.txt:2: is blank"),
        ("q.txt", "one\n", '{"query": "fixed"}', r"body: must hold \{query\} in a string"),
        ("q.txt", "one\n", "{query}", "body: is not JSON"),
        ("q.jsonl", '{"a": 1}\n{"a": \n', None, "q.jsonl:2: is not JSON"),
        ("q.jsonl", '{"a": 1}\n', '"{query}"', "body: .* already holds whole JSON bodies"),
        (None, "", "{", "body: is not JSON"),
        (None, "", "[" * 100_000, "body: is not JSON"),
        (None, "", '"' + "x" * 2_000_000 + '"', "body: is longer than"),
    ],
)
def test_bad_queries_are_refused(
    tmp_path: Path, name: str | None, text: str, body: str | None, message: str
) -> None:
    path = None if name is None else write(tmp_path, text, name)
    with pytest.raises(InputError, match=message):
        parse_queries(path, body=body)


@pytest.mark.parametrize("zipf", [-0.1, 11, math.nan, math.inf])
def test_exponents_out_of_range(zipf: float) -> None:
    with pytest.raises(InputError, match="zipf"):
        parse_queries(None, body=None, zipf=zipf)


def test_no_bodies() -> None:
    with pytest.raises(InputError, match="no query"):
        Queries(())


def test_a_place_for_queries_needs_queries() -> None:
    with pytest.raises(InputError, match=r"body: holds \{query\}, and there is no file of queries"):
        parse_queries(None, body='{"query": "{query}"}')

"""End-to-end latency and critical paths; the sum of variances as a bound."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.latency import critical_path, end_to_end, finish_times, parents_first


@dataclass(frozen=True)
class Node:
    name: str
    after: tuple[str, ...] = ()


DIAMOND = [Node("a"), Node("b", ("a",)), Node("c", ("a",)), Node("d", ("b", "c"))]


def random_dag(seed: int, most: int = 12) -> list[Node]:
    rng = np.random.default_rng(seed)
    nodes: list[Node] = []
    for i in range(int(rng.integers(1, most))):
        parents = rng.permutation(i)[: int(rng.integers(0, min(i, 3) + 1))]
        nodes.append(Node(f"n{i}", tuple(f"n{j}" for j in parents.tolist())))
    return nodes


def longest_by_paths(nodes: list[Node], latency: dict[str, float]) -> float:
    by_name = {node.name: node for node in nodes}

    def end(name: str) -> float:
        return latency[name] + max((end(parent) for parent in by_name[name].after), default=0.0)

    return max(end(node.name) for node in nodes)


def test_a_diamond_by_hand() -> None:
    latency = {
        k: np.array(v) for k, v in {"a": [1.0, 1], "b": [5.0, 2], "c": [3.0, 7], "d": [1.0, 1]}.items()
    }
    assert end_to_end(DIAMOND, latency).tolist() == [7, 9]
    assert finish_times(DIAMOND, latency)["c"].tolist() == [4, 8]
    assert critical_path(DIAMOND, latency).T.tolist() == [
        [True, True, False, True],
        [True, False, True, True],
    ]


def test_of_equal_parents_the_first_is_critical() -> None:
    latency = {name: np.array([1.0]) for name in "abcd"}
    assert critical_path(DIAMOND, latency)[:, 0].tolist() == [True, True, False, True]


@given(st.integers(0, 10_000))
def test_agrees_with_walking_every_path(seed: int) -> None:
    nodes = random_dag(seed)
    rng = np.random.default_rng(seed)
    latency = {node.name: rng.exponential(1, 3) for node in nodes}
    total = end_to_end(nodes, latency)
    path = critical_path(nodes, latency)
    for q in range(3):
        one = {name: float(values[q]) for name, values in latency.items()}
        assert total[q] == pytest.approx(longest_by_paths(nodes, one))
        on_path = sum(one[node.name] for node, on in zip(nodes, path[:, q], strict=True) if on)
        assert on_path == pytest.approx(total[q])


@given(st.integers(0, 10_000))
def test_variance_of_requests_is_at_most_the_sum_of_the_stages_variances(seed: int) -> None:
    nodes = random_dag(seed)
    rng = np.random.default_rng(seed)
    latency = {node.name: rng.lognormal(0, rng.uniform(0.2, 1), 20_000) for node in nodes}
    bound = sum(values.var() for values in latency.values())
    assert end_to_end(nodes, latency).var() <= bound * 1.03


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_parents_first_sorts_any_order(seed: int, shuffler: random.Random) -> None:
    nodes = random_dag(seed)
    shuffler.shuffle(nodes)
    order = [nodes[i] for i in parents_first(nodes)]
    seen: set[str] = set()
    for node in order:
        assert seen.issuperset(node.after)
        seen.add(node.name)
    assert len(seen) == len(nodes)


def test_parents_first_leaves_a_good_order_alone() -> None:
    assert parents_first(DIAMOND) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([Node("a", ("b",)), Node("b", ("a",))], "cycle"),
        ([Node("a", ("a",))], "cycle"),
        ([Node("a", ("z",))], "'z'"),
        ([Node("a"), Node("a")], "twice"),
    ],
)
def test_parents_first_refuses_what_is_no_dag(nodes: list[Node], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parents_first(nodes)


def test_no_stages_have_no_latency() -> None:
    with pytest.raises(InputError, match="no stages"):
        end_to_end([], {})

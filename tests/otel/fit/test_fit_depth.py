"""Fit of nested stages: known services are found again, own times by level, and rows that replay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.idempotence import kept_copyable
from kwiken.model.profile.profile import OWN_TIME, Profile
from kwiken.otel.fit.calls.stage_order import closure
from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.fit.foreign.foreign import fit_foreign
from kwiken.otel.fit.foreign.stage_names import distinct
from kwiken.otel.trace.requests import choose
from tests.otel.trace.test_cleaning import forest_of
from tests.support.data.public_files import public_file
from tests.support.otel.span_trees import MS, T0, Span


@dataclass
class Node:
    """A call, and the calls inside of it: layers one after another, those of a layer side by side."""

    name: str
    layers: list[list[Node]] = field(default_factory=list)
    chance: float = 1.0
    pair: bool = False

    def inside(self) -> Iterator[Node]:
        for layer in self.layers:
            yield from layer


def nested(rng: random.Random, levels: int, path: str = "c", chances: tuple[float, ...] = (1.0,)) -> Node:
    """A call with random calls inside, always several where there are any."""
    node = Node(path, chance=rng.choice(chances) if path != "c" else 1.0, pair=rng.random() < 0.3)
    if levels and (path == "c" or rng.random() < 0.7):
        layers = rng.randint(1, 3)
        least = 2 if layers == 1 else 1
        node.layers = [
            [nested(rng, levels - 1, f"{path}{i}{j}", chances) for j in range(rng.randint(least, 3))]
            for i in range(layers)
        ]
    return node


def emit(rng: random.Random, node: Node, caller: Span, start: int, out: list[Span]) -> int:
    """Add a call's spans, the client's of its caller's service; when it ends. Times are whole microseconds."""
    trace = caller.trace
    span = Span(trace, rng.getrandbits(64) or 1, caller.id, caller.service, node.name, start, 0)
    out.append(span)
    inner = span
    if node.pair:
        inner = Span(
            trace, rng.getrandbits(64) or 1, span.id, f"server-{node.name}", node.name, start + 1000, 0
        )
        out.append(inner)
    now = start + rng.randint(1, 400) * 10_000
    for layer in node.layers:
        there = [child for child in layer if rng.random() < child.chance]
        now = max([now, *(emit(rng, child, inner, now, out) for child in there)])
    span.end = now + rng.randint(1, 400) * 10_000
    inner.end = span.end - 1000 if node.pair else span.end
    return span.end


def spans_of(rng: random.Random, root: Node, requests: int) -> list[Span]:
    out: list[Span] = []
    start = T0
    for trace in range(1, requests + 1):
        start = emit(rng, root, Span(trace, 0, 0, "s", "", start, start), start, out) + MS
    return out


def learn(spans: list[Span], depth: int) -> Profile:
    forest = forest_of(spans)
    return fit_foreign(forest, choose(forest), depth=depth, spans=True)


def replayed(profile: Profile) -> np.ndarray:
    return end_to_end(profile.stages, {s.name: s.latency_ms for s in profile.stages})


def reach(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """All pairs of which the first comes before the second, over any number of steps."""
    names = sorted({name for pair in pairs for name in pair})
    edges = np.zeros((len(names), len(names)), np.bool_)
    for a, b in pairs:
        edges[names.index(a), names.index(b)] = True
    return {(names[a], names[b]) for a, b in np.argwhere(closure(edges))}


def expected(node: Node, depth: int, caller: str = "s") -> tuple[list[str], list[str], set[tuple[str, str]]]:
    """First and last stages of a call split to some depth, and pairs of stages in order, by definition."""
    name = f"{caller}:{node.name}"
    if not (depth and node.layers):
        return [name], [name], set()
    own = name + OWN_TIME
    service = f"server-{node.name}" if node.pair else caller
    before, pairs = [own], set()
    for layer in node.layers:
        ends: list[str] = []
        for child in layer:
            first, last, inner = expected(child, depth - 1, service)
            pairs |= inner | {(a, b) for a in before for b in first}
            ends += last
        before = ends
    return [own], before, pairs


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_known_service_is_found_at_any_depth_and_replays(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    root = nested(rng, 3)
    profile = learn(spans_of(rng, root, 60), depth)
    assert reach({(p, s.name) for s in profile.stages for p in s.after}) == reach(expected(root, depth)[2])
    np.testing.assert_allclose(replayed(profile), profile.latency_ms, atol=1e-6)
    assert not any(s.reissuable for s in profile.stages), "no name says that a call reads"
    (copyable,) = kept_copyable((profile,), ("*",))
    assert all(s.reissuable != s.name.endswith(OWN_TIME) for s in copyable.stages)
    assert not {"clipped_own_time", "clipped_stage_time"} & set(profile.counts)


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_calls_that_some_requests_skip_replay_at_any_depth(seed: int, depth: int) -> None:
    rng = random.Random(seed)
    profile = learn(spans_of(rng, nested(rng, 3, chances=(1.0, 0.5, 0.8)), 60), depth)
    clipped = profile.counts.get("clipped_own_time", 0) + profile.counts.get("clipped_stage_time", 0)
    np.testing.assert_array_less(profile.latency_ms - 1e-6, replayed(profile))
    if not clipped:
        np.testing.assert_allclose(replayed(profile), profile.latency_ms, atol=1e-6)
    for stage in profile.stages:
        assert (stage.latency_ms[~stage.visited] == 0).all()


def test_the_own_time_of_a_stage_is_its_time_less_what_is_inside() -> None:
    spans: list[Span] = []
    for n in range(1, 31):
        t = T0 + n * 1000 * MS
        spans += [
            Span(n, 1, 0, "web", "get", t, t + 100 * MS),
            Span(n, 2, 1, "web", "user", t + 10 * MS, t + 60 * MS),
            Span(n, 3, 2, "user", "cache", t + 15 * MS, t + 20 * MS),
            Span(n, 5, 1, "web", "page", t + 60 * MS, t + 90 * MS),
        ]
        spans += [Span(n, 4, 2, "user", "find", t + 22 * MS, t + (52 + n % 5) * MS)] if n % 3 else []
    shallow, deep = learn(spans, 1), learn(spans, 2)
    assert [s.name for s in shallow.stages[1:]] == ["web:user", "web:page"]
    own = deep.stage(f"web:user{OWN_TIME}")
    numbers = np.arange(1, 31)
    np.testing.assert_allclose(own.calls_ms[:, 0], np.where(numbers % 3 == 0, 45, 15 - numbers % 5))
    assert own.after == (f"web:get{OWN_TIME}",)
    assert own.own_time
    assert deep.stage("user:find").visit_share == pytest.approx(2 / 3)
    assert deep.stage("user:find").after == ("user:cache",)
    assert deep.stage("web:page").after == ("user:find",)
    np.testing.assert_allclose(deep.stages[0].latency_ms, 20)


def test_the_other_end_of_a_call_is_the_call_itself() -> None:
    """A client's span over a server's that calls nothing is no stage with a stage inside."""
    rng = random.Random(1)
    root = Node("c", [[Node("a", pair=True)], [Node("b", pair=True)]])
    profile = learn(spans_of(rng, root, 30), 5)
    assert [s.name for s in profile.stages[1:]] == ["s:a", "s:b"]


def test_the_only_call_of_a_calls_other_end_is_a_stage_inside() -> None:
    rng = random.Random(1)
    root = Node("c", [[Node("a", [[Node("x")]], pair=True)], [Node("b")]])
    assert [s.name for s in learn(spans_of(rng, root, 30), 1).stages[1:]] == ["s:a", "s:b"]
    deep = learn(spans_of(rng, root, 30), 2)
    assert [s.name for s in deep.stages[1:]] == [f"s:a{OWN_TIME}", "server-a:x", "s:b"]


def test_the_only_call_of_a_service_whose_callers_write_no_spans_is_a_stage_inside() -> None:
    """If each service writes its own span only, an only child in another service is a call."""
    spans: list[Span] = []
    for trace in range(1, 31):
        start = T0 + trace * 100 * MS
        spans += [
            Span(trace, 1, 0, "web", "get", start, start + 50 * MS),
            Span(trace, 2, 1, "db", "read", start + MS, start + 30 * MS),
            Span(trace, 3, 2, "disk", "seek", start + 5 * MS, start + 20 * MS),
            Span(trace, 4, 1, "ads", "pick", start + 31 * MS, start + 40 * MS),
        ]
    assert [s.name for s in learn(spans, 1).stages[1:]] == ["db:read", "ads:pick"]
    deep = learn(spans, 2)
    assert [s.name for s in deep.stages[1:]] == [f"db:read{OWN_TIME}", "disk:seek", "ads:pick"]
    np.testing.assert_allclose(deep.stage(f"db:read{OWN_TIME}").latency_ms, 14)


def test_a_fan_out_is_not_split() -> None:
    rng = random.Random(1)
    shard = Node("a", [[Node("x"), Node("y")]])
    profile = learn(spans_of(rng, Node("c", [[shard, shard, shard], [Node("b")]]), 60), 3)
    assert [(s.name, s.calls_ms.shape[1]) for s in profile.stages[1:]] == [("s:a", 3), ("s:b", 1)]
    assert profile.counts["fan_outs_not_split"] == 1


def test_one_call_made_inside_of_two_others_is_told_apart() -> None:
    rng = random.Random(1)
    parts = [Node(name, [[Node("load")], [Node("save")]]) for name in ("one", "two")]
    profile = learn(spans_of(rng, Node("c", [[part] for part in parts]), 60), 2)
    assert [s.name for s in profile.stages[1:]] == [
        f"s:one{OWN_TIME}", "s:load in s:one", "s:save in s:one",
        f"s:two{OWN_TIME}", "s:load in s:two", "s:save in s:two",
    ]  # fmt: skip
    assert {s.match.operation for s in profile.stages if s.name.startswith("s:load")} == {"load"}
    assert profile_from_json(profile_to_json(profile)).digest == profile.digest


def test_a_stage_named_as_the_request_is_told_apart_from_it() -> None:
    rng = random.Random(1)
    profile = learn(spans_of(rng, Node("c", [[Node("c", [[Node("x"), Node("y")]])], [Node("b")]]), 60), 2)
    assert [s.name for s in profile.stages[:2]] == [f"s:c{OWN_TIME}", f"s:c in s:c{OWN_TIME}"]
    np.testing.assert_allclose(replayed(profile), profile.latency_ms, atol=1e-6)


def test_names_grow_only_where_they_must() -> None:
    paths = [("a", "p", "r"), ("a", "q", "r"), ("a", "p", "s"), ("b", "p"), ("a in b",), ("a", "b")]
    assert distinct(paths) == ["a in p in r", "a in q", "a in p in s", "b", "a in b (4)", "a in b (5)"]


def test_depth_has_bounds() -> None:
    spans = spans_of(random.Random(1), Node("c", [[Node("a")], [Node("b")]]), 5)
    for depth in (0, 21):
        with pytest.raises(InputError, match="depth: must be from 1 to 20"):
            learn(spans, depth)


def test_the_social_network_at_depth_two_and_three() -> None:
    """As a reader finds it in docs/traces/stages.md: which client's span holds which calls."""
    path = public_file("jaeger/socialnetwork-compose-post.json")
    two, three = (fit_profile([path], depth=depth, spans=True) for depth in (2, 3))
    for profile in (two, three):
        np.testing.assert_allclose(replayed(profile), profile.latency_ms)
    named = {f"{s.match.service}:{s.match.operation}{OWN_TIME * s.own_time}": s for s in two.stages}
    inner = {f"{s.match.service}:{s.match.operation}{OWN_TIME * s.own_time}": s for s in three.stages}
    whole = {s.name: name for name, s in named.items()}
    after = {name: {whole[p] for p in s.after} for name, s in named.items()}
    text = f"compose-post-service:compose_text_client{OWN_TIME}"
    mentions, urls = "text-service:compose_user_mentions_client", "text-service:compose_urls_client"
    assert after[mentions] == after[urls] == {text}
    assert after[f"compose-post-service:store_post_client{OWN_TIME}"] >= {mentions, urls}
    write = "user-timeline-service:write_user_timeline_"
    assert after[f"{write}redis_update_client"] == {f"{write}mongo_insert_client"}
    # The first trace, by hand: the text took 1,294 us, of which its longer call 3,430 - 2,560.
    first = int(np.argmin(np.abs(two.latency_ms - 5.303)))
    assert named[text].latency_ms[first] == pytest.approx(1.294 - 0.870)
    memcached = "user-mention-service:compose_user_mentions_memcached_get_client"
    find = "user-mention-service:compose_user_mentions_mongo_find_client"
    assert inner[find].after == (inner[memcached].name,)
    assert inner[f"{mentions}{OWN_TIME}"].latency_ms[first] == pytest.approx(0.870 - 0.518 - 0.202)

"""Codecs of service definitions: round trips through all formats, and refusals that name the stage."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import re
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import yaml
from hypothesis import given, strategies as st

from kwiken.base.errors import DefinitionError, InputError
from kwiken.model.service import codec
from kwiken.model.service.codec import StageDoc
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,12}", fullmatch=True) | st.sampled_from(
    ["yes", "no", "null", "true", "on", "off", "y", "n", "None", "e1", "inf", "nan", "NaN", "x" * 64]
)
POSITIVE = st.floats(min_value=1e-9, max_value=1e6, allow_nan=False)


@st.composite
def reissues(draw: st.DrawFn) -> Reissue:
    return Reissue(
        after_ms=draw(st.floats(0, 1e6)),
        probability=draw(st.floats(1e-6, 1)),
        copies=draw(st.integers(1, 16)),
        fraction=draw(st.floats(0, 1)),
    )


@st.composite
def services(draw: st.DrawFn) -> Service:
    """Any DAG with any settings."""
    names = draw(st.lists(NAMES, min_size=0, max_size=12, unique=True))
    stages = []
    for position, name in enumerate(names):
        idempotent = draw(st.booleans())
        replicas = draw(st.integers(1, 5))
        may_reissue = idempotent and replicas > 1
        stages.append(
            Stage(
                name=name,
                after=tuple(draw(st.lists(st.sampled_from(names[:position]), unique=True, max_size=5)))
                if position
                else (),
                fanout=draw(st.integers(1, 9)),
                replicas=replicas,
                idempotent=idempotent,
                optional=draw(st.booleans()),
                utility_weight=draw(POSITIVE),
                timeout_ms=draw(POSITIVE),
                threads=draw(st.integers(1, 8)),
                cost=draw(st.none() | POSITIVE),
                reissue=draw(st.none() | reissues()) if may_reissue else None,
            )
        )
    return Service.of(draw(NAMES), stages)


class TestRoundTrips:
    @given(services())
    def test_every_form_gives_the_same_service_in_the_same_order(self, service: Service) -> None:
        for again in (
            codec.service_from_dict(codec.service_to_dict(service)),
            codec.service_from_json(codec.service_to_json(service)),
            codec.service_from_yaml(codec.service_to_yaml(service)),
            codec.service_from_graph(codec.service_to_graph(service)),
        ):
            assert again == service
            assert list(again.stages) == list(service.stages)
            assert [stage.after for stage in again.stages.values()] == [
                s.after for s in service.stages.values()
            ]

    @given(services())
    def test_the_dict_is_plain(self, service: Service) -> None:
        plain = codec.service_to_dict(service)
        assert json.loads(json.dumps(plain)) == plain
        assert yaml.safe_load(yaml.safe_dump(plain)) == plain

    @given(services())
    def test_the_graph_is_the_dag(self, service: Service) -> None:
        graph = codec.service_to_graph(service)
        assert nx.is_directed_acyclic_graph(graph)
        assert set(graph) == set(service.stages)
        assert set(graph.edges) == {(p, s.name) for s in service.stages.values() for p in s.after}

    def test_code_is_not_carried(self) -> None:
        async def lookup(query: str, *, shard: int) -> str: ...  # type: ignore[empty-body]

        service = Service("demo", page="<html>")
        service.stage(fanout=2, utility=lambda _: 1.0, setup=print)(lookup)
        again = codec.service_from_json(codec.service_to_json(service))
        assert again == service
        assert again.page is None
        assert (again["lookup"].handler, again["lookup"].utility, again["lookup"].setup) == (None, None, None)

    def test_defaults_are_left_out_and_mean_the_same_when_read(self) -> None:
        assert codec.service_to_dict(Service.of("demo", [Stage(name="a")]))["stages"] == [{"name": "a"}]
        stage = {field.name: field.default for field in dataclasses.fields(Stage)}
        document = StageDoc(name="a")
        assert {name: getattr(document, name) for name in StageDoc.__struct_fields__ if name != "name"} == {
            name: stage[name] for name in StageDoc.__struct_fields__ if name != "name"
        }
        carried = set(StageDoc.__struct_fields__)
        assert set(stage) - carried == {"handler", "utility", "worth", "setup", "accept", "resume"}

    def test_the_order_of_parents_is_that_of_the_handler_not_of_the_graph(self) -> None:
        stages = [Stage(name="a"), Stage(name="b"), Stage(name="c", after=("b", "a"))]
        graph = codec.service_to_graph(Service.of("demo", stages))
        edges = list(graph.edges(data=True))
        shuffled: Any = nx.DiGraph(**graph.graph)
        shuffled.add_nodes_from(graph.nodes(data=True))
        random.Random(1).shuffle(edges)
        shuffled.add_edges_from(edges)
        assert codec.service_from_graph(shuffled)["c"].after == ("b", "a")

    def test_a_service_of_the_largest_size_is_read_back(self) -> None:
        stages = [
            Stage(name=f"stage{n}", after=tuple(f"stage{n - k}" for k in (1, 2, 3) if n >= k))
            for n in range(1000)
        ]
        service = Service.of("large", stages)
        assert codec.service_from_json(codec.service_to_json(service)) == service
        assert codec.service_from_yaml(codec.service_to_yaml(service)) == service


GOOD: dict[str, Any] = {
    "version": 1,
    "service": "demo",
    "stages": [{"name": "a"}, {"name": "b", "after": ["a"]}],
}


def changed(**fields: Any) -> dict[str, Any]:
    return GOOD | fields


def with_stage(**fields: Any) -> dict[str, Any]:
    return changed(stages=[{"name": "a"}, {"name": "b", "after": ["a"]} | fields])


BAD: list[tuple[Any, str]] = [
    ([], "must hold an object"),
    ("demo", "must hold an object"),
    (None, "must hold an object"),
    ({}, "version must be 1, not None"),
    (changed(version=2), "version must be 1, not 2"),
    (changed(version="1"), "version must be 1, not '1'"),
    (changed(version=1.0), "version must be 1"),
    (changed(colour="red"), "unknown field 'colour'; known: lines, service, stages, version"),
    ({"version": 1, "service": "demo"}, "'stages' is missing"),
    (changed(stages={"a": {}}), "'stages' must be a list"),
    (changed(service=5), "service: Expected `str`"),
    (changed(service="1st"), "starts with a letter"),
    (changed(stages=["a"]), "stage number 1: Expected `object`"),
    (changed(stages=[{"after": []}]), "stage number 1: missing required field `name`"),
    (changed(stages=[{"name": 5}]), "stage number 1: name: Expected `str`"),
    (with_stage(replcas=2), "stage 'b': unknown field 'replcas'; known: after, attempt_timeout_ms, cost"),
    (with_stage(handler="os.system"), "stage 'b': unknown field 'handler'"),
    (with_stage(after="a"), "stage 'b': after: Expected `array`"),
    (with_stage(after=[1]), r"stage 'b': after\[0\]: Expected `str`"),
    (with_stage(after=["x"]), "stage 'b': comes after 'x', which is not a stage"),
    (with_stage(after=["b"]), "stage 'b': cannot come after itself"),
    (with_stage(replicas="2"), "stage 'b': replicas: Expected `int`"),
    (with_stage(replicas=2.5), "stage 'b': replicas: Expected `int`"),
    (with_stage(replicas=0), "stage 'b': replicas must be a whole number"),
    (with_stage(replicas=10**30), "stage 'b': replicas"),
    (with_stage(idempotent=1), "stage 'b': idempotent: Expected `bool`"),
    (with_stage(timeout_ms=-5), "stage 'b': timeout_ms must be a number above 0"),
    (with_stage(timeout_ms=None), "stage 'b': timeout_ms: Expected `float`"),
    (with_stage(cost=True), "stage 'b': cost: Expected"),
    (with_stage(reissue={"after_ms": 5}), "stage 'b': is not idempotent"),
    (with_stage(idempotent=True, reissue={"after_ms": 5}), "stage 'b': has one replica"),
    (with_stage(reissue={}), "stage 'b': reissue: .*missing required field `after_ms`"),
    (with_stage(reissue={"after_ms": -5}), "stage 'b': reissue: after_ms must be"),
    (with_stage(reissue={"after_ms": 5, "when": 1}), "stage 'b': reissue: .*unknown field `when`"),
    (changed(stages=[{"name": "a"}, {"name": "a"}]), "stage 'a': is defined twice"),
    (
        changed(stages=[{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}]),
        "stage 'a': is part of a cycle",
    ),
]


class TestRefusals:
    @pytest.mark.parametrize(("raw", "message"), BAD)
    def test_bad_documents_name_the_stage_and_the_field(self, raw: Any, message: str) -> None:
        attempts: list[Callable[[], Service]] = [
            lambda: codec.service_from_dict(raw, where="my.json"),
            lambda: codec.service_from_json(json.dumps(raw), where="my.json"),
            lambda: codec.service_from_yaml(yaml.safe_dump(raw), where="my.json"),
        ]
        for attempt in attempts:
            with pytest.raises((InputError, DefinitionError), match=message):
                attempt()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            (" \n\t ", "is empty"),
            ('{\n"version": 1,\n}', "my.json:3: broken JSON"),
            ('{"version": 1', "my.json:1: broken JSON"),
            ("{'version': 1}", "my.json:1: broken JSON"),
            ('{"version": 1} trailing', "my.json:1: broken JSON: Extra data"),
            ('{"version": 1, "version": 1}', "'version' is given twice"),
            ('{"version": NaN}', "NaN is not a number in JSON"),
            ('{"version": -Infinity}', "-Infinity is not a number"),
            ('{"version": 1e999}', "1e999 is out of range"),
            ('{"version": ' + "9" * 5000 + "}", "digits"),
            ("[" * 100_000, "nested too deep"),
            ('{"version": 1}' + " " * (5 << 20), "larger than"),
            (b'{"a": 1,\n"b": "\xff"}', "my.json:2: is not UTF-8"),
        ],
    )
    def test_broken_json(self, text: str | bytes, message: str) -> None:
        with pytest.raises(InputError, match=message):
            codec.service_from_json(text, where="my.json")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty"),
            ("# only a comment", "must hold an object"),
            ("version: 1\nservice: [", "my.yaml:2: broken YAML"),
            ("version: 1\n\tservice: x", "my.yaml:2: broken YAML"),
            ("a: 1\nb: 'open", "my.yaml:2: broken YAML"),
            ("version: 1\nversion: 1", "my.yaml:2: the field 'version' is given twice"),
            ("version: 1\nservice: &a demo\nstages: []", "my.yaml:2: anchors and aliases"),
            ("version: 1\nservice: *a", "my.yaml:2: anchors and aliases"),
            ("a: 1\n---\nb: 2", "broken YAML"),
            ("version: .nan", "my.yaml:1: .nan is not a number"),
            ("version: -.inf", "my.yaml:1"),
            ("version: 2020-99-99", "my.yaml:1: '2020-99-99' cannot be read"),
            ("1: 2", "my.yaml:1: a field's name must be plain text"),
            ("? [a]\n: 2", "my.yaml:1: a field's name must be plain text"),
            ("<<: {version: 1}", "a field's name must be plain text"),
            ("version: !!python/object/apply:os.getcwd []", "my.yaml:1: the tag .* is not taken"),
            (
                "version: !!python/name:os.getcwd ''",
                "my.yaml:1: broken YAML: could not determine a constructor",
            ),
            ("version: !mine {}", "my.yaml:1: the tag '!mine' is not taken"),
            ("[" * 1000, "nested deeper than 32"),
            ("- " * 1000, "nested deeper than 32"),
            ("version: 1\n" + "#" * (5 << 20), "larger than"),
            ("version: \x01", "broken YAML"),
            (b"version: 1\n\xff", "my.yaml:2: is not UTF-8"),
        ],
    )
    def test_broken_yaml(self, text: str | bytes, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            codec.service_from_yaml(text, where="my.yaml")
        assert str(caught.value).startswith("my.yaml")

    def test_a_yaml_bomb_is_refused_at_its_first_anchor(self) -> None:
        lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
        with pytest.raises(InputError, match=r"my\.yaml:1: anchors"):
            codec.service_from_yaml("\n".join(lines), where="my.yaml")

    @given(st.text(max_size=60) | st.binary(max_size=60))
    def test_any_text_is_read_or_refused_as_ours(self, text: str | bytes) -> None:
        for read in (codec.service_from_json, codec.service_from_yaml):
            with pytest.raises((InputError, DefinitionError)):
                read(text)


class TestGraphs:
    @pytest.mark.parametrize("graph", [nx.Graph(), nx.MultiDiGraph(), None, {"a": []}])
    def test_only_simple_directed_graphs(self, graph: Any) -> None:
        with pytest.raises(InputError, match="simple directed graph"):
            codec.service_from_graph(graph, name="demo")

    def test_a_foreign_graph_needs_a_name_only(self) -> None:
        graph = nx.DiGraph([("a", "b"), ("a", "c"), ("c", "d"), ("b", "d")])
        service = codec.service_from_graph(graph, name="demo")
        assert service["d"].after == ("c", "b")
        with pytest.raises(InputError, match="service"):
            codec.service_from_graph(graph)

    def test_cycles_and_loops_are_refused(self) -> None:
        with pytest.raises(DefinitionError, match="cycle"):
            codec.service_from_graph(nx.DiGraph([("a", "b"), ("b", "a")]), name="demo")
        with pytest.raises(DefinitionError, match="itself"):
            codec.service_from_graph(nx.DiGraph([("a", "a")]), name="demo")

    @pytest.mark.parametrize(
        ("attributes", "message"),
        [
            ({"colour": "red"}, "stage 'a': unknown field 'colour'"),
            ({"name": "b"}, "stage 'a': unknown field 'name'"),
            ({"after": ["b"]}, "stage 'a': unknown field 'after'"),
            ({"replicas": "2"}, "stage 'a': replicas"),
        ],
    )
    def test_bad_attributes_name_the_stage(self, attributes: dict[str, Any], message: str) -> None:
        graph: Any = nx.DiGraph()
        graph.add_node("a", **attributes)
        with pytest.raises(InputError, match=message):
            codec.service_from_graph(graph, name="demo")

    def test_nodes_are_names(self) -> None:
        with pytest.raises(InputError, match="must be a string"):
            codec.service_from_graph(nx.DiGraph([(1, 2)]), name="demo")

    def test_places_are_numbers(self) -> None:
        graph: Any = nx.DiGraph()
        graph.add_edge("a", "b", position="first")
        with pytest.raises(InputError, match="edge a->b: position"):
            codec.service_from_graph(graph, name="demo")

    def test_another_version_is_refused(self) -> None:
        with pytest.raises(InputError, match="version must be 1, not 2"):
            codec.service_from_graph(nx.DiGraph(version=2, service="demo"))


LINED = """\
version: 1
service: shop
stages:
  - name: price
    timeout_ms: 800
    remote: {kind: http, url: "http://prices/{request.sku}", method: GET}
  - name: offer
    after: [price]
    remote:
      kind: http
      url: http://offers/
"""


class TestLines:
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("version: 1", "version: 2", "shop.yaml:1: version must be 1, not 2"),
            ("service: shop", "service: 7", "shop.yaml:2: service: Expected `str`"),
            ("service: shop", "service: 1st", "shop.yaml:2: service '1st': a name starts with a letter"),
            ("service: shop", "servce: shop", "shop.yaml:2: unknown field 'servce'"),
            ("service: shop\n", "", "shop.yaml:1: the field 'service' is missing"),
            ("timeout_ms: 800", "timeout: 800", "shop.yaml:5: stage 'price': unknown field 'timeout'"),
            ("timeout_ms: 800", "timeout_ms: x", "shop.yaml:5: stage 'price': timeout_ms: Expected `float`"),
            ("timeout_ms: 800", "timeout_ms: 0", "shop.yaml:5: stage 'price': timeout_ms must be a number"),
            ("timeout_ms: 800", "replicas: 3", "shop.yaml:4: stage 'price': is served by a foreign service"),
            ("method: GET", "method: GOT", "shop.yaml:4: stage 'price': method must be one of"),
            ("{request.sku}", "{requst.sku}", "shop.yaml:4: stage 'price': {requst.sku} names no input"),
            ("- name: price", "- nam: price", "shop.yaml:4: stage number 1: unknown field 'nam'"),
            ("- name: price", "- name: 2nd", "shop.yaml:4: stage '2nd': a name starts with a letter"),
            ("after: [price]", "after: [prise]", "shop.yaml:7: stage 'offer': comes after 'prise'"),
            ("after: [price]", "after: [offer]", "shop.yaml:7: stage 'offer': cannot come after itself"),
            ("name: offer", "name: price", "shop.yaml:7: stage 'price': cannot come after itself"),
            ("kind: http\n", "king: http\n", "shop.yaml:9: stage 'offer': remote: missing required field"),
            ("http://offers/", "ftp://offers/", "shop.yaml:9: stage 'offer': remote must be http://HOST"),
            ("    after: [price]\n", "", "shop.yaml:2: service 'shop' must end in exactly one stage"),
            ("    after: [price]\n", "    after: [price]\n    fanout: 2\n", "shop.yaml:7: stage 'offer': is a fan"),
            ("    after: [price]\n", "    after: [price]\n    optional: true\n", "shop.yaml:7: stage 'offer': is th"),
            (
                '    remote: {kind: http, url: "http://prices/{request.sku}", method: GET}\n',
                "",
                "shop.yaml:4: stage 'price' has no `remote`: a document holds no code",
            ),
        ],
    )  # fmt: skip
    def test_each_error_names_the_line(self, old: str, new: str, message: str) -> None:
        assert LINED.count(old) == 1
        with pytest.raises(InputError, match=re.escape(message)):
            codec.foreign_service_from_yaml(LINED.replace(old, new), where="shop.yaml")

    def test_a_complete_document_is_a_service(self) -> None:
        service = codec.foreign_service_from_yaml(LINED)
        assert service == codec.service_from_yaml(LINED)
        assert [stage.remote_call is not None for stage in service.stages.values()] == [True, True]

    def test_a_stage_of_kwiken_is_read_but_not_run(self) -> None:
        text = "version: 1\nservice: demo\nstages:\n- name: a\n"
        assert codec.service_from_yaml(text)["a"].remote_call is None
        with pytest.raises(InputError, match="service:4: stage 'a' has no `remote`"):
            codec.foreign_service_from_yaml(text)

    @given(st.text(max_size=200) | services().map(codec.service_to_yaml))
    def test_any_text_is_a_service_or_an_input_error(self, text: str) -> None:
        with contextlib.suppress(InputError):
            codec.foreign_service_from_yaml(text)

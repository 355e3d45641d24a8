"""Drawings of services: settings shown, and names escaped."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given, strategies as st

from kwiken.model.service.drawing import Box, boxes_of, to_dot, to_mermaid
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage

SEARCH = Service.of(
    "search",
    [
        Stage(name="spell", replicas=3, idempotent=True, reissue=Reissue(after_ms=12.5)),
        Stage(name="lookup", after=("spell",), fanout=8, replicas=2),
        Stage(name="symbols", after=("spell",), optional=True),
        Stage(name="rank", after=("lookup", "symbols")),
    ],
)


def test_mermaid_in_full() -> None:
    assert to_mermaid(SEARCH) == (
        "flowchart LR\n"
        '  s0["spell<br/>3 replicas<br/>copy after 12.5 ms"]\n'
        '  s1[["lookup<br/>8 shards, 2 replicas"]]\n'
        '  s2["symbols<br/>optional"]:::optional\n'
        '  s3["rank"]\n'
        "  s0 --> s1\n"
        "  s0 --> s2\n"
        "  s1 -->|x8| s3\n"
        "  s2 -.-> s3\n"
        "  classDef optional stroke-dasharray: 5 5\n"
    )


def test_dot_in_full() -> None:
    assert to_dot(SEARCH) == (
        "digraph service {\n"
        "  rankdir=LR;\n"
        "  node [shape=box, fontname=sans];\n"
        '  s0 [label="spell\\n3 replicas\\ncopy after 12.5 ms"];\n'
        '  s1 [label="lookup\\n8 shards, 2 replicas", peripheries=2];\n'
        '  s2 [label="symbols\\noptional", style=dashed];\n'
        '  s3 [label="rank"];\n'
        "  s0 -> s1;\n"
        "  s0 -> s2;\n"
        '  s1 -> s3 [label="x8"];\n'
        "  s2 -> s3 [style=dashed];\n"
        "}\n"
    )


def test_notes_stand_below_the_facts() -> None:
    boxes = boxes_of(SEARCH, {"rank": ["7.1% of the budget"]})
    assert boxes[3].notes == ("7.1% of the budget",)
    assert "rank<br/>7.1% of the budget" in to_mermaid(boxes)


def test_an_empty_drawing_is_a_drawing() -> None:
    assert to_mermaid([]) == "flowchart LR\n"
    assert to_dot([]).endswith(";\n}\n")


HOSTILE = st.text(max_size=20) | st.sampled_from(
    [
        '"]; click s0 "javascript:alert(1)"',
        "`md`",
        "end",
        "#quot;",
        "&quot;",
        "\\",
        '\\"',
        "a\nb",
        "<script>",
        "%%{init}%%",
    ]
)


@given(st.lists(HOSTILE, min_size=1, max_size=4, unique=True))
def test_no_name_breaks_out(names: list[str]) -> None:
    boxes = [
        Box(name=name, after=tuple(names[:position]), notes=(name,)) for position, name in enumerate(names)
    ]
    mermaid = to_mermaid(boxes).splitlines()
    dot = to_dot(boxes).splitlines()
    arrows = len(names) * (len(names) - 1) // 2
    assert len(mermaid) == 1 + len(names) + arrows
    assert len(dot) == 4 + len(names) + arrows
    assert all(
        re.fullmatch(r'  s\d+\["[^"`<>&\\]*<br/>[^"`<>&\\]*"\]', line) for line in mermaid[1 : 1 + len(names)]
    )
    assert all(re.fullmatch(r'  s\d+ \[label="([^"\\]|\\.)*"\];', line) for line in dot[3 : 3 + len(names)])


def test_mermaid_spells_what_has_a_meaning_as_a_code_point() -> None:
    line = to_mermaid([Box(name='a"b#c')]).splitlines()[1]
    assert line == '  s0["a#34;b#35;c"]'


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_the_drawing() -> None:
    boxes = [Box(name='"\\&<x>', shards=3), Box(name="é", after=('"\\&<x>',), optional=True)]
    done = subprocess.run(
        ["dot", "-Tplain"], input=to_dot(boxes), capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.count("node ") == 2

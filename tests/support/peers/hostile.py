"""Hostile text that attacks a terminal, documents full of it, and a check that output is harmless."""

from __future__ import annotations

import json
from typing import Any, Final

from kwiken.model.profile.codec import profile_to_json
from tests.support.models.profiles import small_profile

FORGED: Final = "kwiken: all is well, run curl"
# Clears the screen, starts a sequence by C1, rings, returns, forges a line, turns and hides text, marks up.
ATTACK: Final = (
    "\x1b[2J\x1b]0;title\x07\x9b31m\x00\x7f\b\r\n" + FORGED + "\x85\u2028" + FORGED + "\u2029\u202e\u2066"
    "\u200b\ufeff\U000e0041\u3164[bold red]<script>alert(1)</script>`\"'|%s{0}"
)
Document = Any


def attacked(name: str) -> str:
    """A name with the attack behind it."""
    return name + ATTACK


def everywhere(document: Document) -> Document:
    """The document with the attack in each of its string values; keys are left as they are."""
    if isinstance(document, dict):
        return {key: everywhere(value) for key, value in document.items()}
    if isinstance(document, list):
        return [everywhere(value) for value in document]
    return attacked(document) if isinstance(document, str) else document


def hostile_profile(document: Document) -> Document:
    """A profile's JSON with the attack in every string that it may hold, requests of two kinds and replicas."""
    requests = len(document["latency_ms"])
    document |= {"class_names": ["light", "heavy"], "classes": [number % 2 for number in range(requests)]}
    for stage in document["stages"]:
        rows = [[number % 2 for number in range(requests)] for _ in stage["calls_ms"]]
        stage |= {"replica_names": ["east", "west"], "asked": rows}
    found = everywhere(document)
    found["counts"] = {
        attacked(name): count for name, count in {**document["counts"], "odd_spans": 3}.items()
    }
    return found


def profile_document(requests: int = 300) -> Document:
    """A profile's JSON, sound and harmless."""
    return json.loads(profile_to_json(small_profile(requests, seed=3)))


def assert_harmless(text: str) -> None:
    """Check that nothing in what was printed steers a terminal, and that no line is another's."""
    odd = {c for c in text if c != "\n" and not c.isprintable()} | ({"\u3164"} & set(text))
    assert not odd, ascii(odd)
    lines = text.split("\n")
    forged = [line for line in lines if line.strip().startswith((FORGED, "[bold red]"))]
    assert not forged, forged

"""Entry of a probed stage in a measurements document, as TOML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from kwiken.contention.ramp import Scores
from kwiken.contention.stage_plan import Setting

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_WORKLOADS = re.compile(r"^\[\[workloads\]\]", re.MULTILINE)


@dataclass(frozen=True)
class StageProbe:
    """Measurements of a stage.

    Attributes:
        runs: settings with their performance, calls per second of all replicas together.
        scores: by source of contention, what the stage tolerates and causes.
        rough: sources whose kernels did not come near a line when they were calibrated.
        played_by: what played sizes and classes of nodes, in words.
    """

    runs: tuple[tuple[Setting, float], ...]
    scores: Mapping[str, Scores]
    rough: tuple[str, ...] = ()
    played_by: str = ""


def workload_entry(name: str, found: StageProbe) -> str:
    """The table `[[workloads]]` of a stage.

    Args:
        name: name of the workload.
        found: what was measured.
    """
    lines = ["[[workloads]]", f"name = {_quoted(name)}", 'measure = "rate"', "runs = ["]
    for setting, performance in found.runs:
        told = (
            f"cores = {setting.size.cores:g}, memory_gb = {setting.size.memory_gb:g}, "
            f"replicas = {setting.replicas}, class = {_quoted(setting.node_class)}"
        )
        lines.append(f"  {{ {told}, performance = {performance:.5g} }},")
    lines.append("]")
    for field in ("tolerated", "caused"):
        scores = [f"{_key(source)} = {getattr(each, field):.3g}" for source, each in found.scores.items()]
        lines.append(f"{field} = {{ {', '.join(scores)} }}")
    return "\n".join(lines) + "\n"


def without_workloads(text: str) -> str:
    """Head of a TOML document of measurements: reference and history, without the workloads at its end."""
    found = _WORKLOADS.search(text)
    return text if found is None else text[: found.start()]


def appended(text: str, entries: Sequence[str]) -> str:
    """A TOML document with further tables at its end."""
    return "\n".join([text.rstrip() + "\n", *entries])


def _quoted(words: str) -> str:
    """A TOML basic string: JSON's escapes are all TOML's."""
    return msgspec.json.encode(words).decode()


def _key(name: str) -> str:
    return name if _BARE.match(name) else _quoted(name)

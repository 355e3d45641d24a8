"""Text drawings of a DAG: Mermaid and Graphviz DOT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kwiken.base.printable import printable
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage


@dataclass(frozen=True, kw_only=True)
class Box:
    """Box of a drawing: one stage.

    Attributes:
        name: name of the stage; any text.
        after: names of the boxes with an arrow to this one.
        notes: lines of text below the name.
        shards: number of shards, 1 or more; above 1 the box has doubled sides, and its outgoing arrows show
            the number.
        optional: whether the box and its outgoing arrows are dashed.
    """

    name: str
    after: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    shards: int = 1
    optional: bool = False


def boxes_of(service: Service, notes: Mapping[str, Sequence[str]] | None = None) -> list[Box]:
    """Boxes of a service's stages.

    Args:
        notes: further lines of text by stage; None for none.
    """
    extra = notes or {}
    return [
        Box(
            name=stage.name,
            after=stage.after,
            notes=(*_facts(stage), *extra.get(stage.name, ())),
            shards=stage.fanout,
            optional=stage.optional,
        )
        for stage in service.stages.values()
    ]


def _facts(stage: Stage) -> Iterable[str]:
    sizes = [f"{stage.fanout} shards"] if stage.fanout > 1 else []
    sizes += [f"{stage.replicas} replicas"] if stage.replicas > 1 else []
    sizes += ["foreign"] if stage.remote_call is not None else []
    if sizes:
        yield ", ".join(sizes)
    if stage.optional:
        yield "optional"
    if stage.reissue is not None:
        yield f"copy after {stage.reissue.after_ms:g} ms"


def to_mermaid(drawing: Service | Sequence[Box]) -> str:
    """Draw a Mermaid flowchart from left to right.

    Args:
        drawing: service, or boxes in any order.
    """
    boxes = boxes_of(drawing) if isinstance(drawing, Service) else drawing
    names = {box.name: f"s{number}" for number, box in enumerate(boxes)}
    lines = ["flowchart LR"]
    for box in boxes:
        label = "<br/>".join(_mermaid(line) for line in (box.name, *box.notes))
        left, right = ("[[", "]]") if box.shards > 1 else ("[", "]")
        lines.append(f'  {names[box.name]}{left}"{label}"{right}{":::optional" if box.optional else ""}')
    for parent, box in _edges(boxes):
        arrow = "-.->" if parent.optional else "-->"
        label = f"|x{parent.shards}|" if parent.shards > 1 else ""
        lines.append(f"  {names[parent.name]} {arrow}{label} {names[box.name]}")
    if any(box.optional for box in boxes):
        lines.append("  classDef optional stroke-dasharray: 5 5")
    return "\n".join(lines) + "\n"


def _mermaid(text: str) -> str:
    """Escape text for a quoted Mermaid label: special characters become their code points."""
    return "".join(
        c if (c.isalnum() and printable(c) == c) or c in " _-.,:/()+=%" else f"#{ord(c)};" for c in text
    )


def to_dot(drawing: Service | Sequence[Box]) -> str:
    """Draw a Graphviz digraph from left to right.

    Args:
        drawing: service, or boxes in any order.
    """
    boxes = boxes_of(drawing) if isinstance(drawing, Service) else drawing
    names = {box.name: f"s{number}" for number, box in enumerate(boxes)}
    lines = ["digraph service {", "  rankdir=LR;", "  node [shape=box, fontname=sans];"]
    for box in boxes:
        label = "\\n".join(_dot(line) for line in (box.name, *box.notes))
        style = (", peripheries=2" if box.shards > 1 else "") + (", style=dashed" if box.optional else "")
        lines.append(f'  {names[box.name]} [label="{label}"{style}];')
    for parent, box in _edges(boxes):
        marks = [f'label="x{parent.shards}"'] if parent.shards > 1 else []
        marks += ["style=dashed"] if parent.optional else []
        suffix = f" [{', '.join(marks)}]" if marks else ""
        lines.append(f"  {names[parent.name]} -> {names[box.name]}{suffix};")
    return "\n".join([*lines, "}"]) + "\n"


def _dot(text: str) -> str:
    """Escape text for a quoted DOT label: backslashes, quotes, entities and line ends."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")


def _edges(boxes: Sequence[Box]) -> Iterable[tuple[Box, Box]]:
    known = {box.name: box for box in boxes}
    return ((known[parent], box) for box in boxes for parent in box.after)

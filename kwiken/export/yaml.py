"""YAML writer with comments, for text that YAML 1.1 and 1.2 readers understand alike."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kwiken.base.extras import needs

WIDTH: Final = 100
# All other strings are quoted: YAML 1.1 and 1.2 differ on "1e3", "0o7", "y" and "012", but not in quotes.
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]+\Z")


def comment(lines: Iterable[str]) -> str:
    """Lines as wrapped comments; a line must not hold a line break (see `hedges.plain`)."""
    out: list[str] = []
    for line in lines:
        wrapped = textwrap.wrap(line, WIDTH - 2, subsequent_indent="  ", break_on_hyphens=False) or [""]
        out += [f"# {part}".rstrip() for part in wrapped]
    return "".join(f"{line}\n" for line in out)


def dump(documents: Sequence[tuple[Sequence[str], Any]], header: Sequence[str], *, width: int = WIDTH) -> str:
    """YAML documents, each under its own comment, after a header.

    Args:
        documents: pairs of comment lines and a value of plain types.
        header: lines of the comment at the top.
        width: number of characters after which a value goes on in the next line.
    """
    parts = [comment(header)]
    for position, (lines, value) in enumerate(documents):
        if position:
            parts.append("---\n")
        parts.append(comment(lines))
        parts.append(_yaml(value, width))
    return "".join(parts)


def _yaml(value: Any, width: int) -> str:
    with needs("kwiken.export", "plan"):
        import yaml

    class Dumper(yaml.SafeDumper):
        """Safe dumper that quotes ambiguous strings and never writes aliases."""

        def ignore_aliases(self, data: Any) -> bool:
            del data
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # noqa: FBT001, FBT002 - the base's shape
            del indentless
            return super().increase_indent(flow, False)

    def text(dumper: Any, data: str) -> Any:
        style = None if _PLAIN.match(data) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, width=width, allow_unicode=False)

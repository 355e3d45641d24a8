"""Tables of the pages that follow from the code, as a Sphinx directive and as a command.

A page holds a block such as::

    ```{generated} metrics gateway
    ```

`python docs/site/tables.py metrics gateway` prints the same table.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

ROOT: Final = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # for the faults, which the tests define

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

MANY: Final = 1e9  # from which a number is shown by its exponent
REQUIRED: Final = "required"
LEFT_OUT: Final = "left out"
CONSTANT: Final = re.compile(r"`(MAX_\w+)`")
SETTINGS: Final = {
    "Service": "kwiken.model.service.service",
    "Stage": "kwiken.model.service.stage",
    "Reissue": "kwiken.model.service.stage",
    "Following": "kwiken.model.service.stage",
    "HttpCall": "kwiken.model.service.remote",
    "GrpcCall": "kwiken.model.service.remote",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def metrics(group: str) -> str:
    """Metrics of `gateway`, of `replica` or of `process`, under their names in Prometheus."""
    catalog = importlib.import_module("kwiken.otel.metrics.catalog")
    names = importlib.import_module("kwiken.otel.metrics.prometheus")
    chosen = {
        "gateway": catalog.GATEWAY,
        "replica": catalog.REPLICAS,
        "process": [*catalog.BOTH, catalog.TARGET_INFO],
    }[group]
    return table(
        ("name", "kind, unit", "labels", "what it is, and the question it answers"),
        (
            (
                f"`{names.prometheus_name(each)}`",
                f"{each.kind.value}, {each.unit.strip('{}') or '-'}",
                " ".join(f"`{names.prometheus_label(label)}`" for label in each.labels) or "-",
                f"{each.help} *{each.question}*",
            )
            for each in chosen
        ),
    )


def options(*verb: str) -> str:
    """Options of a verb of `kwiken`, with their defaults; `options batch plan` for a verb of a group."""
    command: Any = importlib.import_module("kwiken.cli.verbs").kwiken
    context = click.Context(command)
    for name in verb:
        command = command.get_command(context, name)
        context = click.Context(command, parent=context)
    named = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return table(
        ("option", "default", "means"),
        ((f"`{each.opts[-1]}{_value(each)}`", _default(each), each.help or "") for each in named),
    )


def _value(option: click.Option) -> str:
    """What follows the name of an option on the command line."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return " " + "|".join(map(str, option.type.choices))
    return " " + (option.metavar or option.opts[-1].lstrip("-").rpartition("-")[2].upper())


def _default(option: click.Option) -> str:
    """The default of an option, empty where there is none."""
    value = option.default
    if option.is_flag or option.multiple or value is None or repr(value).startswith("Sentinel"):
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def events() -> str:
    """Events of the log with their meaning."""
    event = importlib.import_module("kwiken.runtime.base.log_events").Event
    return table(("event", "means"), ((f"`{each.value}`", each.meaning) for each in event))


def faults() -> str:
    """Faults that the tests make, with what clients lose."""
    return str(importlib.import_module("tests.support.faults.matrix.faults").table())


def packages() -> str:
    """Packages of `kwiken/`, two levels deep, with the first line of each docstring."""

    def rows(folder: Path, depth: int) -> Iterator[tuple[str, str]]:
        for init in sorted(folder.glob("*/__init__.py")):
            docstring = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
            name = init.parent.relative_to(ROOT)
            yield f"{'&nbsp;&nbsp;' * depth}`{name}/`", docstring.partition("\n")[0]
            if depth == 0:
                yield from rows(init.parent, 1)

    return table(("package", "what it is"), rows(ROOT / "kwiken", 0))


def settings(name: str) -> str:
    """Settings of a class of the service's model: default, and meaning from the class's docstring."""
    module = importlib.import_module(SETTINGS[name])
    shown = getattr(module, name)
    meanings = described(shown)
    return table(
        ("setting", "default", "means"),
        (
            (f"`{each}`", default, bounded(meanings[each], module))
            for each, default in defaults(shown).items()
        ),
    )


def defaults(shown: Any) -> dict[str, str]:
    """Default of each setting: `required`, `left out`, or the value as code."""
    if dataclasses.is_dataclass(shown):
        found = {each.name: (each.default, dataclasses.MISSING) for each in dataclasses.fields(shown)}
    elif issubclass(shown, msgspec.Struct):
        found = {
            each.name: (
                each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory(),
                msgspec.NODEFAULT,
            )
            for each in msgspec.structs.fields(shown)
        }
    else:
        found = {
            each.name: (each.default, each.empty) for each in inspect.signature(shown).parameters.values()
        }
    return {
        name: REQUIRED if value is missing else LEFT_OUT if value is msgspec.UNSET else f"`{value!r}`"
        for name, (value, missing) in found.items()
    }


def described(shown: Any) -> dict[str, str]:
    """Entries under `Args` or `Attributes` of a docstring, by name."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.getdoc(shown).splitlines():  # type: ignore[union-attr] - a test asks for docstrings
        entry = re.fullmatch(r" {4}(\w+): (.+)", line)
        if entry is not None:
            name = entry[1]
            found[name] = entry[2]
        elif line.startswith(" " * 8) and name:
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def bounded(meaning: str, module: Any) -> str:
    """A meaning with constants of its module as numbers."""

    def number(name: str) -> str:
        value = getattr(module, name)
        return f"{value:,.0f}" if value < MANY else f"{value:.0e}".replace("+", "")

    return CONSTANT.sub(lambda found: number(found[1]), meaning)


KINDS: Final[dict[str, Callable[..., str]]] = {
    "metrics": metrics,
    "options": options,
    "events": events,
    "faults": faults,
    "packages": packages,
    "settings": settings,
}


def generate(words: Sequence[str]) -> str:
    """The table that a directive asks for, in Markdown.

    Args:
        words: kind of table, then what it is about.

    Raises:
        KeyError: for a kind, a class or a group that there is not.
    """
    kind, *about = words
    return KINDS[kind](*about)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    from docutils.statemachine import StringList
    from sphinx.util.docutils import SphinxDirective

    class Generated(SphinxDirective):
        """A table made of the code."""

        required_arguments = 1
        final_argument_whitespace = True

        def run(self) -> list[nodes.Node]:
            """Return the nodes of the table."""
            from docutils import nodes

            holder = nodes.section()
            holder.document = self.state.document
            lines = generate(self.arguments[0].split()).splitlines()
            self.state.nested_parse(StringList(lines, source="tables.py"), self.content_offset, holder)
            return holder.children

    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    sys.stdout.write(f"{generate(sys.argv[1:])}\n")

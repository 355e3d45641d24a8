"""Sphinx directive `face`: every name that a package's face offers, with its docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx


NARROWER = ("kwiken.hedge", "kwiken.otel", "kwiken.runtime", "kwiken.loadtest", "kwiken.testing")


def names_of(package: str) -> list[str]:
    """Names that the `__init__` of a package offers by `from module import X as X`, in alphabetical order."""
    file = importlib.import_module(package).__file__
    assert file is not None
    source = ast.parse(Path(file).read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(source) if isinstance(node, ast.ImportFrom))
    return sorted({alias.asname for node in imports for alias in node.names if alias.asname is not None})


class Face(SphinxDirective):
    """The directive; its argument is the full name of a package."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what autodoc makes of each name."""
        package = importlib.import_module(self.arguments[0])
        lines: list[str] = []
        for name in names_of(package.__name__):
            shown: Any = getattr(package, name)
            kind = "class" if inspect.isclass(shown) else "function" if callable(shown) else "data"
            lines += [f".. auto{kind}:: {package.__name__}.{name}"]
            # A name that two doors offer is described at both, and indexed at the narrower one.
            home = str(getattr(shown, "__module__", ""))
            if package.__name__ == "kwiken" and home.startswith(NARROWER):
                lines += ["   :no-index:"]
            lines += [""]
        return self.parse_content_to_nodes_from(StringList(lines, source=package.__name__))

    def parse_content_to_nodes_from(self, lines: StringList) -> list[nodes.Node]:
        """Parse lines of reStructuredText where the directive stands."""
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(lines, self.content_offset, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("face", Face)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Commands of `python -m papers`: each failure is one line and an exit code, as for verbs of `kwiken`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from kwiken.apps.console.process import heed_signals, open_standard_files, unheed_signals
from kwiken.cli.shared.verb_group import VerbContext
from kwiken.cli.verbs import guarded


class PaperCommand(click.Command):
    """Command of a module of `papers` that is run by `python -m`."""

    context_class = VerbContext

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        """Run a command line, and end the process with its exit code."""
        open_standard_files()
        try:
            heed_signals()
            sys.exit(guarded(self, args, f"python -m {self.name}"))
        finally:
            unheed_signals()

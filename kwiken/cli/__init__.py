"""The `kwiken` command: one module per verb, imported when that verb is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from kwiken.apps.console.process import heed_signals, open_standard_files, unheed_signals

if TYPE_CHECKING:
    from kwiken.cli.verbs import kwiken as kwiken


def main(args: Iterable[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with its exit code.

    Imports everything else inside, because Ctrl-C during the imports must not print a traceback.

    Args:
        args: arguments after the program's name; None for those of this process.
    """
    if os.name != "posix":
        sys.exit(f"kwiken: runs on Linux and macOS, not on {sys.platform}")
    unheed_signals()
    open_standard_files()
    from kwiken.cli.verbs import main as run

    try:
        heed_signals()
        run(args)
    finally:
        unheed_signals()


def __getattr__(name: str) -> Any:
    if name == "kwiken":
        from kwiken.cli.verbs import kwiken

        return kwiken
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

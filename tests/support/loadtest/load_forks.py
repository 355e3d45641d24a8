"""Fork server for `kwiken load`: modules are imported once, and each command is a quick fork.

Reads one JSON line a command on stdin (`arguments`, `environment`, and the files `out` and `err`), and answers
each with its exit code. An empty line ends the server: the end of stdin is not seen while another process
holds a copy of the pipe, as workers that a test forked do.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from kwiken.cli import main
from kwiken.loadtest.patching import without_patching


def serve() -> None:
    """Run commands one after another until an empty line."""
    importlib.import_module("kwiken.cli.live.load")
    with without_patching():
        importlib.import_module("kwiken.loadtest.local")
    while (line := sys.stdin.readline()).strip():
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(asked["environment"])
            for number, path in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
                os.dup2(os.open(path, os.O_RDWR), number)
            main(["load", *asked["arguments"]])
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()

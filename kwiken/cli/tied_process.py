"""Process that runs one verb of `kwiken` and ends when its standard input is closed.

Run as `python -m kwiken.cli.tied_process VERB ...`. The parent holds the other end of the pipe, so
not even a SIGKILL of the demo leaves its load behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from kwiken.cli import main


def _end_with_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    main()

"""What every test relies on."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Undo that a shell which starts pytest in the background makes it and its children deaf to SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

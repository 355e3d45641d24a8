"""Importing Locust without what it does to the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH = "LOCUST_SKIP_MONKEY_PATCH"


@contextmanager
def without_patching() -> Iterator[None]:
    """Keep Locust from replacing the standard library's sockets: all that waits here asks gevent itself.

    Locust's own command has replaced them before it reads a locustfile; that does no harm.
    """
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = before

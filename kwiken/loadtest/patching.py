"""Import guard that keeps Locust from monkey-patching the standard library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH = "LOCUST_SKIP_MONKEY_PATCH"


@contextmanager
def without_patching() -> Iterator[None]:
    """Context in which importing Locust leaves the standard library's sockets as they are.

    The code of this package that waits calls gevent directly, so it needs no patches. Locust's own command
    patches before it reads a locustfile, which does no harm.
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

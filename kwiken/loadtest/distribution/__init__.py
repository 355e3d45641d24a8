"""Open-loop load under Locust's own command: options, division over processes, counts and the common end.

Importing this package loads neither gevent nor Locust; using its names does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwiken.base.lazy import lazy_names
from kwiken.loadtest.patching import without_patching

if TYPE_CHECKING:
    from kwiken.loadtest.distribution.hooks import hook_into_locust as hook_into_locust
    from kwiken.loadtest.distribution.options import with_options as with_options
    from kwiken.loadtest.distribution.session import Session as Session
    from kwiken.loadtest.distribution.share import Share as Share

_load = lazy_names(__name__, __file__, extra="load")


def __getattr__(name: str) -> Any:
    with without_patching():  # Locust would patch the standard library
        return _load(name)

"""Tests of your own service in one process: fake replicas, a virtual clock, and what was copied or refused.

Needs no test framework: `virtual_time` makes a plain function of an asynchronous test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.testing.client import ServiceClient as ServiceClient, running as running
    from kwiken.testing.fake_replica import FakeReplica as FakeReplica
    from kwiken.testing.virtual_loop import virtual_time as virtual_time

__getattr__ = lazy_names(__name__, __file__)

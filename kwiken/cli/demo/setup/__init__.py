"""Set-up of a demo: settings, schedule, folder and load generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.demo.setup.blocks import ARMS, Block, Schedule, orders
    from kwiken.cli.demo.setup.folder import Folder
    from kwiken.cli.demo.setup.load import Load, LoadError, Record, read_records, write_queries
    from kwiken.cli.demo.setup.settings import (
        EDGE_S,
        MIN_LEARN_REQUESTS,
        PLANNING_S,
        SETTLE_S,
        TARGET,
        DemoSettings,
        Timing,
        check_enough,
        divide,
    )

__all__ = [
    "ARMS",
    "EDGE_S",
    "MIN_LEARN_REQUESTS",
    "PLANNING_S",
    "SETTLE_S",
    "TARGET",
    "Block",
    "DemoSettings",
    "Folder",
    "Load",
    "LoadError",
    "Record",
    "Schedule",
    "Timing",
    "check_enough",
    "divide",
    "orders",
    "read_records",
    "write_queries",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.cli.demo.setup.blocks": (
            "ARMS",
            "Block",
            "Schedule",
            "orders",
        ),
        "kwiken.cli.demo.setup.folder": ("Folder",),
        "kwiken.cli.demo.setup.load": (
            "Load",
            "LoadError",
            "Record",
            "read_records",
            "write_queries",
        ),
        "kwiken.cli.demo.setup.settings": (
            "DemoSettings",
            "EDGE_S",
            "MIN_LEARN_REQUESTS",
            "PLANNING_S",
            "SETTLE_S",
            "TARGET",
            "Timing",
            "check_enough",
            "divide",
        ),
    },
)

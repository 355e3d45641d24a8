"""Verbs that make a plan or replay one: plan, simulate, judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.planning.load_options import CANCEL, DISPATCH, REPLICAS, UTILISATION, queue_settings

__all__ = ["CANCEL", "DISPATCH", "REPLICAS", "UTILISATION", "queue_settings"]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.cli.planning.load_options": (
            "CANCEL",
            "DISPATCH",
            "REPLICAS",
            "UTILISATION",
            "queue_settings",
        ),
    },
)

"""Disturbance of the demo: replicas paused by a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.demo.faults.disturb import Disturber, Flaky, choose

__all__ = ["Disturber", "Flaky", "choose"]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.cli.demo.faults.disturb": (
            "Disturber",
            "Flaky",
            "choose",
        )
    },
)

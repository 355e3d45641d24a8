"""Fault injection of the demo: a separate process that pauses replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.cli.demo.faults.disturb import DisturbedStage, Disturber, choose

__all__ = ["DisturbedStage", "Disturber", "choose"]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.cli.demo.faults.disturb": (
            "Disturber",
            "DisturbedStage",
            "choose",
        )
    },
)

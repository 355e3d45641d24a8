"""Fault injection of the demo: a separate process that pauses replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.apps.demo.faults.disturb import (
        DisturbedStage as DisturbedStage,
        Disturber as Disturber,
        choose as choose,
    )

__getattr__ = lazy_names(__name__, __file__)

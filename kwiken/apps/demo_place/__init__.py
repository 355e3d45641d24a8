"""Demonstration of placement: three services and best-effort work on nodes of unequal speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:  # the client is a program of its own, and starts without what the run needs
    from kwiken.apps.demo_place.demo_verdict import verdict as verdict
    from kwiken.apps.demo_place.outcome import (
        PlacedArm as PlacedArm,
        Recovery as Recovery,
        ServiceOutcome as ServiceOutcome,
    )
    from kwiken.apps.demo_place.run import run_demo as run_demo
    from kwiken.apps.demo_place.traffic import (
        ClientOrder as ClientOrder,
        ClientStream as ClientStream,
        LoadPhase as LoadPhase,
        p99_ms as p99_ms,
    )

__getattr__ = lazy_names(__name__, __file__)

"""Steering: the shell of the autopilot, which looks at gateways and traces and carries decisions out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.gateway.steering.gateways import Gateways as Gateways
    from kwiken.runtime.gateway.steering.process import AutopilotProcess as AutopilotProcess
    from kwiken.runtime.gateway.steering.steering import (
        Steering as Steering,
        SteeringSettings as SteeringSettings,
    )

__getattr__ = lazy_names(__name__, __file__)  # a gateway starts the process without SciPy

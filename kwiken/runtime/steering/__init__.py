"""Steering: the shell of the autopilot, which looks at gateways and traces and carries decisions out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.steering.gateways import (
        NO_ANSWER as NO_ANSWER,
        Answers as Answers,
        Figures as Figures,
        Gateways as Gateways,
    )
    from kwiken.runtime.steering.lease import LEASE_S as LEASE_S, Lease as Lease
    from kwiken.runtime.steering.process import AutopilotProcess as AutopilotProcess
    from kwiken.runtime.steering.record_file import RecordFile as RecordFile
    from kwiken.runtime.steering.steering import Steering as Steering, SteeringSettings as SteeringSettings

__getattr__ = lazy_names(__name__, __file__)  # a gateway starts the process without SciPy

"""Gateway: requests in over HTTP, control routes, and the plan in force."""

from __future__ import annotations

from kwiken.runtime.gateway.allowed_origins import is_loopback
from kwiken.runtime.gateway.control import Control
from kwiken.runtime.gateway.front_door import FrontDoor
from kwiken.runtime.gateway.name_resolver import NameResolver, parse_endpoint
from kwiken.runtime.gateway.plan_files import PlanFile, SharedPlan
from kwiken.runtime.gateway.plan_store import PlanStore
from kwiken.runtime.gateway.responses import BAD_GATEWAY, Failure, judge
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import MAX_REQUEST, GatewaySettings

__all__ = [
    "BAD_GATEWAY",
    "MAX_REQUEST",
    "Control",
    "Failure",
    "FrontDoor",
    "Gateway",
    "GatewaySettings",
    "NameResolver",
    "PlanFile",
    "PlanStore",
    "SharedPlan",
    "is_loopback",
    "judge",
    "parse_endpoint",
]

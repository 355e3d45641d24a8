"""Gateway: requests in over HTTP, control routes, and the plan in force."""

from __future__ import annotations

from kwiken.runtime.gateway.allowed_origins import is_loopback
from kwiken.runtime.gateway.control import Control
from kwiken.runtime.gateway.plan_file import NameResolver, PlanFile, parse_endpoint
from kwiken.runtime.gateway.plan_store import PlanStore
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings

__all__ = [
    "Control",
    "Gateway",
    "GatewaySettings",
    "NameResolver",
    "PlanFile",
    "PlanStore",
    "is_loopback",
    "parse_endpoint",
]

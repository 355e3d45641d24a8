"""Control of a gateway: plans in force and on disk, replicas and their addresses, metrics of the service."""

from __future__ import annotations

from kwiken.runtime.gateway.control.control import Control as Control, Denied as Denied
from kwiken.runtime.gateway.control.metrics import GatewayMetrics as GatewayMetrics
from kwiken.runtime.gateway.control.name_resolver import (
    NameResolver as NameResolver,
    parse_endpoint as parse_endpoint,
)
from kwiken.runtime.gateway.control.plan_files import PlanFile as PlanFile, SharedPlan as SharedPlan
from kwiken.runtime.gateway.control.plan_store import PlanStore as PlanStore

"""Gateway: requests in over HTTP, control routes, and the plan in force."""

from __future__ import annotations

from kwiken.runtime.gateway.control import Control as Control
from kwiken.runtime.gateway.front_door import FrontDoor as FrontDoor
from kwiken.runtime.gateway.live_page.allowed_origins import is_loopback as is_loopback
from kwiken.runtime.gateway.name_resolver import (
    NameResolver as NameResolver,
    parse_endpoint as parse_endpoint,
)
from kwiken.runtime.gateway.plans.plan_files import PlanFile as PlanFile, SharedPlan as SharedPlan
from kwiken.runtime.gateway.plans.plan_store import PlanStore as PlanStore
from kwiken.runtime.gateway.responses import BAD_GATEWAY as BAD_GATEWAY, Failure as Failure, judge as judge
from kwiken.runtime.gateway.server import Gateway as Gateway
from kwiken.runtime.gateway.settings import MAX_REQUEST as MAX_REQUEST, GatewaySettings as GatewaySettings

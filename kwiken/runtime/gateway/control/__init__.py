"""Control of a gateway: plans in force and on disk, replicas and their addresses, metrics of the service."""

from __future__ import annotations

from kwiken.runtime.gateway.control.control import Control as Control, Denied as Denied
from kwiken.runtime.gateway.control.metrics import GatewayMetrics as GatewayMetrics
from kwiken.runtime.gateway.control.name_resolver import (
    NameResolver as NameResolver,
    SiblingNames as SiblingNames,
    parse_endpoint as parse_endpoint,
)
from kwiken.runtime.gateway.control.plan_files import PlanFile as PlanFile, SharedPlan as SharedPlan
from kwiken.runtime.gateway.control.plan_store import PlanStore as PlanStore
from kwiken.runtime.gateway.control.siblings import (
    GATEWAY_NAME as GATEWAY_NAME,
    INSTANCE as INSTANCE,
    SiblingAnswers as SiblingAnswers,
    Siblings as Siblings,
    is_alone as is_alone,
    whole_body as whole_body,
)
from kwiken.runtime.gateway.control.steering import (
    MAX_LINES as MAX_LINES,
    PERSON as PERSON,
    Author as Author,
    AutopilotNote as AutopilotNote,
    NoteLine as NoteLine,
    SteeredSetting as SteeredSetting,
)

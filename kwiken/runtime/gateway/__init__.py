"""Gateway: requests in over HTTP, control routes, and the plan in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names
from kwiken.runtime.gateway.live_page import is_loopback as is_loopback
from kwiken.runtime.gateway.responses import judge as judge
from kwiken.runtime.gateway.server import Gateway as Gateway
from kwiken.runtime.gateway.settings import GatewaySettings as GatewaySettings

if TYPE_CHECKING:
    from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer as GrpcGatewayServer

__getattr__ = lazy_names(__name__, __file__)  # gRPC takes long to import, and most replicas need none

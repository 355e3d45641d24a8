"""gRPC: calls to replicas, and what the servers of stages and gateways share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.wire.grpc.health_check import check_health as check_health
    from kwiken.runtime.wire.grpc.incoming_messages import IncomingCall as IncomingCall
    from kwiken.runtime.wire.grpc.messages import (
        answer_message as answer_message,
        payload_of as payload_of,
        stage_answer_message as stage_answer_message,
        stage_inputs_of as stage_inputs_of,
    )
    from kwiken.runtime.wire.grpc.remote_transport import RemoteTransport as RemoteTransport
    from kwiken.runtime.wire.grpc.server import GrpcServer as GrpcServer
    from kwiken.runtime.wire.grpc.settings import (
        ASK_METHOD as ASK_METHOD,
        CALL_METHOD as CALL_METHOD,
        FAILURE as FAILURE,
        RETRY_PUSHBACK as RETRY_PUSHBACK,
    )
    from kwiken.runtime.wire.grpc.transport import GrpcTransport as GrpcTransport

__getattr__ = lazy_names(__name__, __file__)

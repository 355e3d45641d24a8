"""Replica server over gRPC: serves all shards of one stage from one process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from typing import Any, Final

import grpc
import msgspec

from kwiken.base.errors import InputError
from kwiken.runtime.base.errors import DeadlineError, OverloadError
from kwiken.runtime.replica.server import read_call_settings
from kwiken.runtime.replica.stage_calls import (
    NOT_TAKEN,
    EndedCall,
    Ending,
    ReceivedCall,
)
from kwiken.runtime.replica.stage_server import Port, StageServer
from kwiken.runtime.wire.grpc.incoming_messages import IncomingCall
from kwiken.runtime.wire.grpc.messages import stage_answer_message, stage_inputs_of
from kwiken.runtime.wire.grpc.server import GrpcServer
from kwiken.runtime.wire.grpc.settings import CALL_METHOD, FAILURE
from kwiken.runtime.wire.http_server.acceptor import max_connections
from kwiken.runtime.wire.http_server.byte_budget import REPLICA_SHARE, ByteBudget, share_of_memory
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import MAX_PRIORITY
from kwiken.runtime.wire.transport.call_bodies import ReplicaLoad

CODES: Final[Mapping[Ending, grpc.StatusCode]] = {
    Ending.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Ending.MISDIRECTED: grpc.StatusCode.FAILED_PRECONDITION,
    Ending.FAILED: grpc.StatusCode.UNKNOWN,
    Ending.REFUSED: grpc.StatusCode.UNAVAILABLE,
    Ending.FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Ending.LATE: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class GrpcReplicaServer(StageServer[GrpcServer]):
    """gRPC server of one stage; see `StageServer` for its settings."""

    def _serving(self, at: Port) -> GrpcServer:
        return GrpcServer(
            CALL_METHOD,
            self._call,
            host=at.host,
            port=at.port,
            max_body=at.max_body,
            connections=max_connections(),
            budget=ByteBudget(at.max_bodies if at.max_bodies is not None else share_of_memory(REPLICA_SHARE)),
            tls=at.tls,
        )

    def _send_elsewhere(self) -> None:
        self._server.report_stopping()

    async def start(self) -> None:
        """Listen, run the stage's setup, and report to be ready.

        Raises:
            InputError: the address cannot be bound to.
            DefinitionError: the setup raises; names the place.
        """
        await super().start()
        self._server.report_ready()

    async def _call(self, incoming: IncomingCall) -> bytes:
        """Run a call. One whose message has not come, for want of room or of time, did not run."""
        came = time.monotonic()
        context = incoming.context
        remaining_s = context.time_remaining()
        headers = dict(context.invocation_metadata())
        try:
            message = await incoming.message(_priority_of(headers))
        except (OverloadError, DeadlineError) as error:
            answer = self._answer(self.calls.refused(str(error), came), context)
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            return answer
        except InputError as error:
            return self._answer(self.calls.invalid(error), context)
        try:
            inputs, stage = stage_inputs_of(message)
        except InputError as error:
            ended = self.calls.invalid(error)
        else:
            deadline = inf if remaining_s is None else came + remaining_s
            try:
                settings = read_call_settings(headers)
            except InputError as error:
                return self._answer(self.calls.invalid(error), context)
            call = ReceivedCall(inputs, came, deadline, stage, settings, headers.get(wire.TRACEPARENT, ""))
            ended = await self.calls.serve(call)
        return self._answer(ended, context)

    def _answer(self, ended: EndedCall, context: Any) -> bytes:
        """Set status and metadata of an answer; returns its message."""
        ending = ended.ending
        load = ReplicaLoad(ended.busy_ms, ended.inflight, self.calls.latency_ms)
        if ending is Ending.ANSWERED:
            return stage_answer_message(ended.body, load)
        if ending in NOT_TAKEN:
            context.set_trailing_metadata(
                ((wire.REFUSED, NOT_TAKEN[ending]), (wire.INFLIGHT, str(load.inflight))),
            )
            context.set_code(CODES[ending])
            context.set_details(ended.body.decode())
            return b""
        context.set_trailing_metadata(
            (
                (wire.BUSY, f"{load.busy_ms:.3f}"),
                (wire.INFLIGHT, str(load.inflight)),
                (wire.LATENCY, f"{load.latency_ms:.3f}"),
                (FAILURE, ended.body),
            )
        )
        context.set_code(CODES[ending])
        context.set_details(_readable(ended.body))
        return b""


def _priority_of(headers: Mapping[str, str]) -> int:
    """Priority by which a call waits for its message; one that is no priority is refused after that."""
    try:
        return wire.read_whole(headers, wire.PRIORITY, low=-MAX_PRIORITY, high=MAX_PRIORITY) or 0
    except InputError:
        return 0


def _readable(failure: bytes) -> str:
    """Kind and message of an error, for people with another client."""
    told = msgspec.msgpack.decode(failure, type=dict[str, str])
    return f"{told['kind']}: {told['error']}"

"""The chain of three stages by hand on grpc.aio, whose messages are plain bytes, the cheapest there are.

It keeps the contract that callers of a chain of services rely on, and no more: each stage gets what is left
of the caller's deadline and the caller's trace context, and an error of a stage, or an unreadable request,
reaches the caller with its status.

`python -m benchmarks.gateway.chain_grpc` runs its processes: it prints its port on one line and ends when its
standard input closes.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import grpc
import msgspec
import uvloop
from grpc import aio

from benchmarks.gateway.chain import Item, step

TIMEOUT_S = 10.0
TRACEPARENT: Final = "traceparent"
CALL = "/chain.Stage/Call"
ASK = "/chain.Gateway/Ask"


def stage_server() -> Any:
    """A stage: MessagePack in, MessagePack out."""
    decoder = msgspec.msgpack.Decoder(Item)

    async def call(message: bytes, context: Any) -> bytes:
        try:
            item = decoder.decode(message)
        except msgspec.MsgspecError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return msgspec.msgpack.encode(step(item))

    return _server(CALL, call)


def gateway_server(*ports: str) -> Any:
    """A gateway: JSON in, the stages' calls one after another with the bytes passed on, JSON out."""
    decoder = msgspec.json.Decoder(Item)
    stages = [aio.insecure_channel(f"127.0.0.1:{port}").unary_unary(CALL) for port in ports]

    async def ask(message: bytes, context: Any) -> bytes:
        trace = [entry for entry in context.invocation_metadata() if entry[0] == TRACEPARENT]
        try:
            body = msgspec.msgpack.encode(decoder.decode(message))
            for stage in stages:
                body = await stage(body, timeout=context.time_remaining(), metadata=trace)
        except msgspec.MsgspecError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        return msgspec.json.encode({"answer": msgspec.msgpack.decode(body)})

    return _server(ASK, ask)


def _server(path: str, method: Any) -> Any:
    service, name = path.strip("/").split("/")
    server = aio.server()
    handlers = {name: grpc.unary_unary_rpc_method_handler(method)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    return server


async def _serve(role: str, *ports: str) -> None:
    server = stage_server() if role == "stage" else gateway_server(*ports)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    uvloop.run(_serve(*sys.argv[1:]))

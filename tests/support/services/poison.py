"""Test service with requests that crash or hang the replica which serves them."""

from __future__ import annotations

import os
import signal

from kwiken.model.service.service import Service

service = Service("poison")


@service.stage(idempotent=True, replicas=3, timeout_ms=600)
async def only(request: str) -> str:
    """Exit, stop or block the process if the request says so; else return the request."""
    match request:
        case "exit":
            os._exit(9)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "spin":
            while request:
                pass
    return request

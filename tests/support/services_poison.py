"""A service with requests that take down what they touch."""

from __future__ import annotations

import os
import signal

from kwiken.service import Service

service = Service("poison")


@service.stage(idempotent=True, replicas=3, timeout_ms=600)
async def only(request: str) -> str:
    """Ends, stops or wedges its process when it is told so; else returns the request."""
    match request:
        case "exit":
            os._exit(9)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "spin":
            while request:
                pass
    return request

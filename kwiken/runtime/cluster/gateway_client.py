"""Supervisor's HTTP client: control routes of its gateway, and liveness of all processes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from typing import Final

import aiohttp
import msgspec

from kwiken.base.errors import InputError
from kwiken.runtime.cluster.child_process import ChildError
from kwiken.runtime.cluster.liveness import Liveness, check_liveness
from kwiken.runtime.wire.transport import wire

READY_S: Final = 30.0  # for the gateway to become ready
READY_INTERVAL_S: Final = 0.02  # between two checks of whether it is
REQUEST_TIMEOUT_S: Final = 5.0  # timeout of a request to the gateway


class GatewayClient:
    """HTTP client of a supervisor; create it in a running event loop, and close it.

    Args:
        tls: function that returns the context of the next connection over TLS; None for the system's.
    """

    def __init__(self, url: str, token: str, *, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._tls = tls
        self._url = url
        self._token = token
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            # Processes that hang must not delay the checks of others.
            connector=aiohttp.TCPConnector(limit=0),
        )

    async def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send a request to a control route; returns the body of the answer.

        Args:
            body: JSON; None for no body.

        Raises:
            InputError: the gateway refuses; with its reason.
            ClientError, TimeoutError: the gateway does not answer.
        """
        async with self._session.request(
            method,
            self._url + path,
            data=body,
            headers={"Authorization": f"Bearer {self._token}", wire.KEEPS: "1"},
            ssl=self._context(),
        ) as response:
            data = await response.read()
        if not response.ok:
            with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError, KeyError):
                raise InputError(msgspec.json.decode(data, type=dict[str, str])["error"], where="gateway")
            raise InputError(f"answered {response.status}", where="gateway")
        return data

    async def until_ready(self) -> None:
        """Wait until the gateway is ready.

        Raises:
            ChildError: it was not ready in time.
        """
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self._session.get(self._url + "/readyz", ssl=self._context()) as response:
                    if response.ok:
                        return
            await asyncio.sleep(READY_INTERVAL_S)
        raise ChildError(f"gateway: was not ready within {READY_S:g} s")

    async def check(self, url: str, within_s: float) -> Liveness:
        """Check whether a process is alive.

        Args:
            within_s: timeout of the response, seconds.
        """
        return await check_liveness(self._session, url, within_s, tls=self._context())

    def _context(self) -> ssl.SSLContext | bool:
        return self._tls() if self._tls is not None else True

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

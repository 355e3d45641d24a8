"""Client of the API of Kubernetes: the few requests that an upkeep sends."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import read_file

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S: Final = 10.0  # of one request
MAX_TOKEN: Final = 64 << 10  # bytes
MAX_ANSWER: Final = 256 << 20  # bytes
PAGE: Final = 500  # objects in one answer
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


class KubernetesError(KwikenError):
    """Refusal of the API, or no answer."""


@dataclass(frozen=True, kw_only=True)
class ApiAddress:
    """Address of the API of Kubernetes, with the credentials of the caller.

    Attributes:
        url: address of the API server, as `https://HOST:PORT`.
        token_file: file with the token, which is read again for each request, as it changes; None for none.
        ca_file: certificates by which the server is known; None for those of this machine.
    """

    url: str
    namespace: str
    token_file: Path | None = None
    ca_file: Path | None = None

    @classmethod
    def within(cls, namespace: str | None = None) -> Self:
        """Address for a process in a pod, by what Kubernetes gives every pod.

        Args:
            namespace: namespace of the service; None for the pod's own.

        Raises:
            InputError: this process is in no pod.
        """
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port or not (ACCOUNT / "token").exists():
            raise InputError("this process is in no pod of Kubernetes; give --api URL", where="--kubernetes")
        return cls(
            url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=namespace or read_file(ACCOUNT / "namespace", MAX_TOKEN).decode().strip(),
            token_file=ACCOUNT / "token",
            ca_file=ACCOUNT / "ca.crt",
        )


class KubernetesApi:
    """Requests to the API; an asynchronous context manager."""

    def __init__(self, address: ApiAddress) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Read the certificates."""
        ca_file = self._address.ca_file
        try:
            trusted = ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
        except OSError as error:
            raise InputError(f"cannot be read: {error}", where=str(ca_file)) from error
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), connector=aiohttp.TCPConnector(ssl=trusted)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def pods(self, selector: str) -> list[dict[str, Any]]:
        """Pods of the namespace that have some labels.

        Args:
            selector: labels that the pods must have, as `name=value,name=value`.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        return await self._list(f"{self._core}/pods", labelSelector=selector)

    async def all_pods(self) -> list[dict[str, Any]]:
        """Pods of all namespaces.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        return await self._list("/api/v1/pods")

    async def nodes(self) -> list[dict[str, Any]]:
        """Nodes of the cluster.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        return await self._list("/api/v1/nodes")

    async def patch_pod(self, name: str, patch: dict[str, Any]) -> None:
        """Change a pod's marks, or what it waits for.

        Args:
            patch: fields to set; None removes one.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        await self._request("PATCH", f"{self._core}/pods/{name}", patch, kind=MERGE)

    async def resize_pod(self, name: str, container: str, amounts: dict[str, str]) -> None:
        """Change requests and limits of a container that runs.

        Args:
            amounts: quantity of each resource, as Kubernetes writes it, such as `500m` of `cpu`.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        resources = {"requests": amounts, "limits": amounts}
        patch = {"spec": {"containers": [{"name": container, "resources": resources}]}}
        await self._request("PATCH", f"{self._core}/pods/{name}/resize", patch, kind=STRATEGIC)

    async def scale(self, deployment: str) -> int:
        """Number of replicas that a Deployment is to have.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        found = await self._request("GET", self._scale_of(deployment))
        return int(found["spec"].get("replicas", 0))

    async def set_scale(self, deployment: str, replicas: int) -> None:
        """Set the number of replicas of a Deployment.

        Args:
            replicas: number of replicas, 0 or more.

        Raises:
            KubernetesError: the API refuses, or does not answer.
        """
        await self._request("PATCH", self._scale_of(deployment), {"spec": {"replicas": replicas}}, kind=MERGE)

    @property
    def _core(self) -> str:
        return f"/api/v1/namespaces/{self._address.namespace}"

    def _scale_of(self, deployment: str) -> str:
        return f"/apis/apps/v1/namespaces/{self._address.namespace}/deployments/{deployment}/scale"

    async def _list(self, path: str, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        query["limit"] = str(PAGE)
        while True:
            page = await self._request("GET", path, **query)
            found += page["items"]
            rest = page.get("metadata", {}).get("continue")
            if not rest:
                return found
            query["continue"] = rest

    async def _request(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: str
    ) -> Any:
        assert self._session is not None, "use the API as an asynchronous context manager"
        headers = {"Accept": "application/json"}
        if self._address.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self._address.token_file)}"
        data = None
        if body is not None:
            headers["Content-Type"] = kind
            data = msgspec.json.encode(body)
        try:
            async with self._session.request(
                method, self._address.url + path, params=query, data=data, headers=headers
            ) as response:
                text = await _whole_body(response, MAX_ANSWER)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KubernetesError(f"{method} {path}: no answer: {error or type(error).__name__}") from error
        try:
            answer = msgspec.json.decode(text)
            if response.ok:
                return answer
            reason = answer["message"]
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise KubernetesError(f"{method} {path}: answered {response.status} without JSON") from error
        raise KubernetesError(f"{method} {path}: {reason}")


async def _whole_body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Body of an answer; raises ValueError if it has more than so many bytes."""
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > most:
            raise ValueError(f"the answer is longer than {most} bytes")
    return bytes(body)


def _token(file: Path) -> str:
    try:
        return read_file(file, MAX_TOKEN).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise KubernetesError(f"{file}: holds no token: {error}") from error

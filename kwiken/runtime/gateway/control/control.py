"""Control routes of the gateway: plan, replicas and status, protected by a token."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.engine.status_document import merged_status
from kwiken.runtime.gateway.control.exchange import Exchange
from kwiken.runtime.gateway.control.siblings import is_alone
from kwiken.runtime.gateway.control.steering import (
    AUTOPILOT,
    PERSON,
    Author,
    AutopilotNote,
    read_note,
    read_setting,
)
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Replica

MAX_REPLICAS: Final = 10_000


def targets_of(gateways: Sequence[str], replicas: Mapping[str, Sequence[Replica]]) -> list[dict[str, Any]]:
    """Gateways and replicas as targets of Prometheus's HTTP service discovery.

    Args:
        gateways: URL of each gateway of the cluster.
        replicas: replicas by stage, without those of foreign services, which show no such metrics.
    """
    # Each is read by itself: its metrics must not hold its siblings' too.
    alone = {"__param_alone": "1"} if len(gateways) > 1 else {}
    fronts = [
        {"targets": [urlsplit(url).netloc], "labels": {"kw_gateway": str(number), **alone}}
        for number, url in enumerate(gateways)
    ]
    return fronts + [
        {
            "targets": [urlsplit(replica.address).netloc],
            "labels": {"kw_stage": stage, "kw_replica": replica.id, "kw_node": replica.node},
        }
        for stage, those in replicas.items()
        for replica in those
        if replica.address.startswith("http://")
    ]


class Denied(Exception):  # noqa: N818 - an answer, not a fault
    """The client is not allowed to use the control routes.

    Attributes:
        status: 401 for a missing or wrong token, 403 if the routes are closed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Control:
    """Reads and changes the plan and the replicas of a running gateway.

    Args:
        exchange: with the siblings, about the plan in force and the budget.
        token: secret that a client must send; None closes every route.
        status: function that returns the gateway's own figures.
        gateways: URL of each gateway of the cluster.

    Attributes:
        plans: plan in force.
        siblings: other gateways of the service.
        note: the autopilot's last note; None before the first.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        exchange: Exchange,
        *,
        token: str | None,
        status: Callable[[], dict[str, Any]],
        gateways: Sequence[str] = (),
    ) -> None:
        self._service = service
        self._executor = executor
        self._exchange = exchange
        self._tokens: tuple[bytes, ...] = ()
        self.take_tokens((token,) if token is not None else ())
        self._status = status
        self._gateways = tuple(gateways)
        self._replicas: dict[str, list[Replica]] = {name: [] for name in service.stages}
        self.plans, self.siblings = exchange.plans, exchange.siblings
        self.note: AutopilotNote | None = None
        self._crowded: list[str] = []  # nodes without headroom
        self._read_replicas = msgspec.json.Decoder(dict[str, list[Replica]])

    def take_tokens(self, tokens: Iterable[str]) -> None:
        """Take other tokens from now on.

        Args:
            tokens: secrets of which a client must send one; empty to close every route.
        """
        self._tokens = tuple(token.encode() for token in tokens)

    def authorise(self, headers: Any) -> None:
        """Check the client's token in constant time.

        Raises:
            Denied: the routes are closed, or the token is missing or wrong.
        """
        if not self._tokens:
            raise Denied(403, "the control routes are closed; start the gateway with a token file")
        kind, _, given = headers.get("Authorization", "").partition(" ")
        given_bytes = given.strip().encode(errors="replace")
        # Every token is compared, so that the time tells nothing of which one is like it.
        fits = [hmac.compare_digest(given_bytes, token) for token in self._tokens]
        if kind.lower() != "bearer" or not any(fits):
            raise Denied(401, "the Authorization header must be: Bearer TOKEN")

    async def plan(self, request: web.BaseRequest) -> Any:
        """GET the plan in force, or PUT another one; null is no plan.

        A client that puts a plan will usually not put it again after the gateway crashed, so the plan is
        saved or refused; the client can waive that by a header. null is always accepted: removing a plan must
        not depend on free disk space.
        """
        if request.method == "PUT":
            must = request.headers.get(wire.KEEPS) != "1"
            self.plans.apply(await request.read(), where="plan", must=must)
            await self._share(request)
        return self._executor.plan

    async def plan_check(self, request: web.BaseRequest) -> Any:
        """PUT a plan to learn whether it would be refused; returns the plan in force, which stays."""
        self.plans.check(await request.read(), where="plan")
        return self._executor.plan

    async def _share(self, request: web.BaseRequest) -> None:
        """Offer the plan in force to the siblings, unless the client speaks to each of them."""
        if not is_alone(request.rel_url.query):
            await self._exchange.share_plan()

    async def autopilot(self, request: web.BaseRequest) -> Any:
        """GET who put the plan in force and the autopilot's note, or PUT a setting of the autopilot."""
        if request.method == "PUT":
            self.plans.steer(read_setting(await request.read()))
        return {"author": self.plans.author, "note": self.note}

    async def resume(self, request: web.BaseRequest) -> Any:
        """PUT: let the autopilot go on from the plan in force, whoever put it there."""
        return await self._hand_to(AUTOPILOT, request)

    async def hold(self, request: web.BaseRequest) -> Any:
        """PUT: keep the plan in force as it is, as if a person had put it there; a trial ends."""
        return await self._hand_to(PERSON, request)

    async def _hand_to(self, author: Author, request: web.BaseRequest) -> Any:
        self.plans.hand_to(author)
        await self._share(request)
        return {"author": author}

    async def take_note(self, request: web.BaseRequest) -> Any:
        """PUT a note of the autopilot, which the status, the page and the metrics show."""
        self.note = read_note(await request.read())
        return {}

    async def answer_sibling(self, request: web.BaseRequest) -> Any:
        """PUT a sibling's question about the budget and the plan that all share."""
        return await self._exchange.answer(request)

    async def replicas(self, request: web.BaseRequest) -> Any:
        """GET the replicas by stage, or PUT those of the stages named."""
        if request.method == "PUT":
            self.set_replicas(self._decode(await request.read()))
        return self._replicas

    def _decode(self, body: bytes) -> dict[str, list[Replica]]:
        try:
            return self._read_replicas.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputError(str(error), where="replicas") from error

    def set_replicas(self, replicas: dict[str, list[Replica]]) -> None:
        """Replace the replicas of the stages named: of all of them, or of none if one is wrong.

        Raises:
            InputError: an address is not a URL, or two replicas have the same id.
            DefinitionError: unknown stage.
        """
        for stage, those in replicas.items():
            _ = self._service[stage]
            _check_replicas(stage, those)
        for stage, those in replicas.items():
            self._replicas[stage] = those
            self._executor.set_replicas(stage, those)

    async def crowded_nodes(self, request: web.BaseRequest) -> Any:
        """GET the nodes without headroom, whose replicas get no copies of calls, or PUT all of them."""
        if request.method == "PUT":
            try:
                nodes = msgspec.json.decode(await request.read(), type=list[str])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise InputError(str(error), where="crowded nodes") from error
            self._crowded = sorted(set(nodes))
            self._executor.withhold_copies(self._crowded)
        return self._crowded

    async def targets(self, request: web.BaseRequest) -> Any:
        """GET gateways and replicas in the form of Prometheus's HTTP service discovery."""
        del request
        stages = self._service.stages
        own = {name: each for name, each in self._replicas.items() if stages[name].remote_call is None}
        return targets_of(self._gateways, own)

    @property
    def lacking(self) -> list[str]:
        """Names of the stages without a replica that a request cannot do without."""
        required = (name for name, stage in self._service.stages.items() if not stage.optional)
        return [name for name in required if not self._replicas[name]]

    async def status(self, request: web.BaseRequest) -> Any:
        """GET the figures of all gateways together, with a line for each; of this one alone if told so."""
        own = {
            **self._status(),
            **self.steered(),
            "plan_unkept": self.plans.unsaved_reason,
            **self._executor.status(),
        }
        if not self.siblings.any or is_alone(request.rel_url.query):
            return own
        answers = await self.siblings.ask("/v1/status")
        others, silent = answers.documents(self._service.name, lambda one: merged_status([own, one], []))
        return merged_status([own, *others], silent)

    def steered(self) -> dict[str, Any]:
        """Origin of the plan in force, and the autopilot's note, as plain JSON types."""
        return {
            "author": self.plans.author,
            "revision": self.plans.revision.number,
            "by": self.plans.revision.by,
            "autopilot": msgspec.to_builtins(self.note),
        }


def _check_replicas(stage: str, replicas: list[Replica]) -> None:
    where = f"replicas of stage {stage!r}"
    if len(replicas) > MAX_REPLICAS:
        raise InputError(f"at most {MAX_REPLICAS}, not {len(replicas)}", where=where)
    if len({replica.id for replica in replicas}) != len(replicas):
        raise InputError("two have the same id", where=where)
    for replica in replicas:
        wire.split_address(replica.address, where=f"{where}: {replica.id}", schemes=wire.SCHEMES)

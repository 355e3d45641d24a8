"""Control routes of the gateway: plan, replicas and status, protected by a token."""

from __future__ import annotations

import codecs
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.model.service.service import Service
from kwiken.runtime.base.errors import PlanNotSavedError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.engine.status_document import merged_status
from kwiken.runtime.gateway.control.plan_revision import FIRST, PlanOffer, PlanRevision
from kwiken.runtime.gateway.control.siblings import NO_SIBLINGS, Siblings, is_alone
from kwiken.runtime.gateway.control.steering import (
    AUTOPILOT,
    PERSON,
    Author,
    AutopilotNote,
    SteeredSetting,
    read_note,
    read_setting,
)
from kwiken.runtime.gateway.control.targets import targets_of
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Replica

MAX_REPLICAS: Final = 10_000


class Denied(Exception):  # noqa: N818 - an answer, not a fault
    """The client is not allowed to use the control routes.

    Attributes:
        status: 401 for a missing or wrong token, 403 if the routes are closed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class SavePlan(Protocol):
    """Function that saves a plan for a gateway that takes over."""

    def __call__(self, plan: bytes, *, author: Author | None, revision: PlanRevision, must: bool) -> None:
        """Save a plan and who put it in force; raises PlanNotSavedError if it must be saved and cannot be."""


class Control:
    """Reads and changes the plan and the replicas of a running gateway.

    Args:
        token: secret that a client must send; None closes every route.
        status: function that returns the gateway's own figures.
    """

    def __init__(
        self,
        service: Service,
        executor: Executor,
        *,
        token: str | None,
        status: Callable[[], dict[str, Any]],
    ) -> None:
        self._service = service
        self._executor = executor
        self._tokens: tuple[bytes, ...] = ()
        self.take_tokens((token,) if token is not None else ())
        self._status = status
        self._replicas: dict[str, list[Replica]] = {name: [] for name in service.stages}
        self.gateways: tuple[str, ...] = ()  # URL of each gateway of the cluster
        self.siblings: Siblings = NO_SIBLINGS
        self.exchange: Callable[[web.BaseRequest], Awaitable[Any]] | None = None  # answers siblings
        self.share_plan: Callable[[], Awaitable[None]] | None = None  # offers the plan in force to siblings
        self.name = self.siblings.instance  # of the gateway
        self.save_plan: SavePlan | None = None  # takes every plan that was put in force
        self.unsaved_reason: Callable[[], str | None] = lambda: None  # why the one in force is not noted
        self.author: Author | None = None  # who put the plan in force
        self.revision = FIRST  # of the plan in force; an older one gives way
        self.note: AutopilotNote | None = None  # the autopilot's last one
        self._epoch = 0  # of the autopilot's lease
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
            body = await request.read()
            self.apply(body, where="plan", must=request.headers.get(wire.KEEPS) != "1")
            if self.share_plan is not None and not is_alone(request.rel_url.query):
                await self.share_plan()
        return self._executor.plan

    def _next_revision(self, author: Author | None) -> PlanRevision:
        return self.revision.after(author, self.name, time.time_ns() // 1_000_000)

    def apply(self, text: bytes, *, where: str, must: bool = False, first: bool = False) -> None:
        """Put a plan in force, whole or not at all.

        Args:
            text: plan as JSON; null for no plan.
            must: whether to refuse a plan that cannot be saved for a gateway that takes over.
            first: whether the gateway starts with it, so that a plan of any sibling is newer.

        Raises:
            InputError: the text is not a plan, or a plan for another service.
            DefinitionError: the plan does not fit the service; names the stage.
            PlanNotSavedError: the plan must be saved and cannot be.
        """
        before = self._executor.plan, self.author
        plan = self._put(text, where, PERSON)
        revision = self.revision if first else self._next_revision(PERSON)
        try:
            if self.save_plan is not None:
                must = must and plan is not None
                self.save_plan(msgspec.json.encode(plan), author=PERSON, revision=revision, must=must)
        except PlanNotSavedError:
            self._executor.apply(before[0])  # no request has run in between
            self.author = before[1]
            raise
        self.revision = revision

    def _put(self, text: bytes, where: str, author: Author | None) -> Plan | None:
        text = text.removeprefix(codecs.BOM_UTF8)  # some editors write one
        plan = None if text.strip() == b"null" else Plan.from_json(text, where=where)
        self._executor.apply(plan)
        self.author = author
        return plan

    def adopt(
        self, text: bytes, *, where: str, author: Author | None = PERSON, revision: PlanRevision = FIRST
    ) -> None:
        """Put a plan of another gateway in force, whole or not at all; the same plan goes on as it is.

        An older one does not undo the one in force: that is saved again, so that the other learns of it.

        Args:
            text: plan as JSON; null for no plan.
            author: who put it in force; None for nobody.
            revision: its revision; an older one than that in force changes nothing.

        Raises:
            InputError: the text is not a plan, or a plan for another service.
            DefinitionError: the plan does not fit the service; names the stage.
        """
        if revision < self.revision:
            self._save()
            return
        if text == msgspec.json.encode(self._executor.plan) and AUTOPILOT in (author, self.author):
            self._hand_to(author)
        else:
            self._put(text, where, author)
        self.revision = revision

    def offer(self) -> PlanOffer:
        """Plan in force, for a sibling."""
        plan = msgspec.json.encode(self._executor.plan)
        return PlanOffer(self.revision, self.author, msgspec.Raw(plan))

    def take(self, offer: PlanOffer) -> None:
        """Put a sibling's plan in force, and save it, if it is newer than the one in force.

        Raises:
            KwikenError: the plan does not fit the service.
        """
        if self.revision < offer.revision:
            plan, where = bytes(offer.plan), f"plan by {offer.revision.by}"
            self.adopt(plan, where=where, author=offer.author, revision=offer.revision)
            self._save()

    def _hand_to(self, author: Author | None) -> None:
        """Note who acts from now on; where a person does, nothing is tried any longer."""
        if author == PERSON and self._executor.trial is not None:
            self._executor.apply(self._executor.plan)
        self.author = author

    async def autopilot(self, request: web.BaseRequest) -> Any:
        """GET who put the plan in force and the autopilot's note, or PUT a setting of the autopilot."""
        if request.method == "PUT":
            self.steer(read_setting(await request.read()))
        return {"author": self.author, "note": self.note}

    def steer(self, setting: SteeredSetting) -> None:
        """Put a setting of an autopilot in force, whole or not at all.

        A setting that cannot be saved is in force all the same: the autopilot puts it again after a restart.

        Raises:
            InputError: a person put the plan in force, another leader's setting came later, or a plan does
                not fit.
            DefinitionError: a plan does not fit the service; names the stage.
        """
        if self.author == PERSON:
            raise InputError(
                "a person put the plan in force; kwiken autopilot --resume lets the loop go on",
                where="autopilot",
            )
        if setting.epoch < self._epoch:
            raise InputError(
                f"lease {self._epoch} has come after lease {setting.epoch}: another process leads now",
                where="autopilot",
            )
        self._executor.apply(
            setting.plan,
            trial=setting.trial,
            trial_share=setting.trial_share,
            control_share=setting.control_share,
        )
        self._epoch, self.author = setting.epoch, AUTOPILOT
        self.revision = self._next_revision(AUTOPILOT)
        self._save()

    async def resume(self, request: web.BaseRequest) -> Any:
        """PUT: let the autopilot go on from the plan in force, whoever put it there."""
        del request
        self._hand_to(AUTOPILOT)
        self.revision = self._next_revision(PERSON)
        self._save()
        return {"author": self.author}

    async def hold(self, request: web.BaseRequest) -> Any:
        """PUT: keep the plan in force as it is, as if a person had put it there; a trial ends."""
        del request
        self._hand_to(PERSON)
        self.revision = self._next_revision(PERSON)
        self._save()
        return {"author": self.author}

    async def take_note(self, request: web.BaseRequest) -> Any:
        """PUT a note of the autopilot, which the status, the page and the metrics show."""
        self.note = read_note(await request.read())
        return {}

    def _save(self) -> None:
        if self.save_plan is not None:
            plan = msgspec.json.encode(self._executor.plan)
            self.save_plan(plan, author=self.author, revision=self.revision, must=False)

    async def answer_sibling(self, request: web.BaseRequest) -> Any:
        """PUT a sibling's question about the budget and the plan that all share."""
        if self.exchange is None:
            raise InputError("this gateway has no siblings", where="exchange")
        return await self.exchange(request)

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
        return targets_of(self.gateways, self._replicas)

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
            "plan_unkept": self.unsaved_reason(),
            **self._executor.status(),
        }
        if not self.siblings.any or is_alone(request.rel_url.query):
            return own
        answers = await self.siblings.ask("/v1/status")
        others, silent = answers.documents(self._service.name)
        return merged_status([own, *others], silent)

    def steered(self) -> dict[str, Any]:
        """Origin of the plan in force, and the autopilot's note, as plain JSON types."""
        return {
            "author": self.author,
            "revision": self.revision.number,
            "by": self.revision.by,
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

"""Loop that steers a service's gateways: their counts and traces in, plans tried, kept and taken back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.plan.plan import Plan
from kwiken.otel.write.observer import DecisionRecord, DecisionSpans
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.engine.status_document import Status
from kwiken.runtime.gateway.control.steering import MAX_LINES, PERSON, AutopilotNote, NoteLine, SteeredSetting
from kwiken.runtime.gateway.steering.gateways import Answers, Gateways, by_person
from kwiken.runtime.gateway.steering.learning import learn
from kwiken.runtime.gateway.steering.lease import Lease
from kwiken.runtime.gateway.steering.record_file import RecordFile
from kwiken.tail.autopilot.autopilot import CONTROL_SHARE, Autopilot, Decision, Seen
from kwiken.tail.autopilot.proposal import PlanProposal
from kwiken.tail.autopilot.record import ACTIONS, MAX_REASON, LoggedDecision

LOG = logging.getLogger("kwiken.autopilot")
POLL_S: Final = 2.0  # between two looks at the gateways
SAVE_S: Final = 30.0  # between two saves of the count of requests
FAILED_S: Final = 20.0  # after traces that could not be learned from
_FIGURES: Final = re.compile(r"[0-9.]+")


@dataclass(frozen=True, kw_only=True)
class SteeringSettings:
    """Settings of a loop.

    Attributes:
        traces: folder or address of the traces to learn from.
        state: folder of the record and the lease.
        budget: reissue budget of every plan, a share above 0 and at most 1.
        holder: name of this process, unique among all that could lead.
    """

    service: str
    traces: str
    state: Path
    budget: float
    holder: str


class Steering:
    """Loop of one process. Of several on the same folder one leads, and the others wait for its place.

    Args:
        gateways: opened client of the gateways.
        say: told each decision with its reason, as one line.
        spans: writes a span for each decision; None for none.
    """

    def __init__(
        self,
        settings: SteeringSettings,
        gateways: Gateways,
        *,
        say: Callable[[str], None],
        spans: DecisionSpans | None = None,
    ) -> None:
        self._settings = settings
        self._gateways = gateways
        self._say = say
        self._spans = spans
        self._file = RecordFile(settings.state / f"{settings.service}.autopilot")
        self._lease = Lease(settings.state / f"{settings.service}.lease", settings.holder)
        self._pilot: Autopilot | None = None  # while this process leads
        self._learning: asyncio.Task[PlanProposal] | None = None
        self._learn_after = 0.0  # moment by the monotonic clock
        self._saved_at = 0.0  # likewise
        self._sentence = ""
        self._told: LoggedDecision | None = None  # the last one that was said and saved
        self._trouble = ""  # of learning
        self._complaints: dict[str, str] = {}  # the last one of each topic, without its figures

    async def run(self) -> None:
        """Steer until cancelled. A step that fails is logged, and the next ones are taken."""
        try:
            while True:
                try:
                    await self.step()
                except Exception as error:
                    LOG.exception(
                        "a step of the autopilot failed: %s: %s",
                        type(error).__name__,
                        error,  # noqa: TRY401 - the line has the reason, also where only it is shown
                        extra=about(Event.AUTOPILOT_FAILED),
                    )
                await asyncio.sleep(POLL_S)
        finally:
            await self._stop()

    async def _stop(self) -> None:
        if self._learning is not None:
            with contextlib.suppress(Exception):  # what it would have proposed is not wanted any more
                await cancel_and_wait([self._learning])
        if self._pilot is not None:
            self._file.save(self._pilot.record)
            with contextlib.suppress(OSError, KwikenError):
                self._lease.release()

    async def step(self) -> None:
        """Look at the gateways once, decide, and carry the decision out."""
        now_s = time.time()
        if not self._leads(now_s):
            return
        pilot = self._pilot
        assert pilot is not None  # set where this process leads
        answers = (await self._gateways.ask()).of(self._settings.service)
        seen = await self._seen(pilot, answers, now_s)
        decision = pilot.observe(seen)
        if decision.wants_proposal and seen is not None:
            decision = await self._with_proposal(pilot, decision, seen, answers)
        if seen is None:
            away = "; ".join(f"{url}: {reason}" for url, reason in answers.silent.items())
            self._complain("gateways", f"{decision.reason} ({away})")
        else:
            self._complaints.pop("gateways", None)
        self._tell(pilot, decision)
        await self._follow(pilot, answers)
        await self._note(pilot, answers, now_s)

    # Leadership.

    def _leads(self, now_s: float) -> bool:
        """Whether this process leads; where it begins to, it goes on from the record."""
        try:
            leads = self._lease.hold(now_s)
        except (OSError, InputError) as error:
            why = f"the lease cannot be written ({getattr(error, 'strerror', None) or error})"
            if self._pilot is None:
                self._once(f"{why}, so nothing is changed")
                return False
            # What is tried must be watched all the same. Another leader's lease would have a higher number.
            self._complain("lease", f"{why}, so what is in force is watched, and no plan is tried")
            return True
        self._complaints.pop("lease", None)
        if not leads:
            self._pilot = None
            self._once(f"{self._lease.leader} leads, and this process waits for its place")
        elif self._pilot is None:
            self._pilot = Autopilot(self._file.read(self._settings.service, self._settings.budget))
            self._told = self._pilot.record.entries[-1] if self._pilot.record.entries else None
            self._once(f"this process leads, with lease {self._lease.epoch}")
        return leads

    # Observation.

    async def _seen(self, pilot: Autopilot, answers: Answers, now_s: float) -> Seen | None:
        """What the gateways tell together; where they differ, what one tells that has yet to follow."""
        if not answers.figures:
            return None
        first, figures = next(iter(answers.figures.items()))
        for url, each in answers.figures.items():
            if by_person(each) or not self._follows(pilot, each):
                first, figures = url, each
                if by_person(each):
                    break
        return Seen(
            at_s=now_s,
            author=PERSON if by_person(figures) else figures["author"],
            plan=await self._plan_of(pilot, first, figures),
            trial=figures["trial"],
            trial_share=figures["trial_share"],
            requests=answers.requests,
            control=answers.arm("control"),
            planned=answers.arm("planned"),
            tried=answers.arm("tried"),
        )

    async def _plan_of(self, pilot: Autopilot, url: str, figures: Status) -> Plan | None:
        if figures["plan"] is None:
            return None
        known = pilot.record.in_force
        if known is not None and known.digest == figures["plan"]:
            return known
        return await self._gateways.clients[url].plan()

    def _follows(self, pilot: Autopilot, figures: Status) -> bool:
        record = pilot.record
        plan = record.in_force.digest if record.in_force is not None else None
        trial = record.trial.digest if record.trial is not None else None
        share = CONTROL_SHARE if plan is not None or trial is not None else figures["control_share"]
        return (figures["plan"], figures["trial"], figures["trial_share"], figures["control_share"]) == (
            plan,
            trial,
            record.trial_share,
            share,
        )

    # Learning.

    async def _with_proposal(
        self, pilot: Autopilot, decision: Decision, seen: Seen, answers: Answers
    ) -> Decision:
        """Learn in a thread; decide on what was proposed once it is there."""
        if answers.silent:
            away = ", ".join(answers.silent)
            return Decision(action="wait", reason=f"no plan is tried while {away} does not answer")
        if self._learning is None:
            if time.monotonic() < self._learn_after:
                return Decision(action="wait", reason=self._trouble)
            self._learning = asyncio.create_task(self._learn(pilot, answers))
        if not self._learning.done():
            return Decision(action="wait", reason=f"{decision.reason}, and a plan is being made")
        task, self._learning = self._learning, None
        self._learn_after = time.monotonic() + FAILED_S  # whatever kept it from ending well
        try:
            proposal = task.result()
        except (KwikenError, OSError) as error:
            self._trouble = f"no plan can be made, so what is in force stays: {error}"[:MAX_REASON]
            self._complain("learning", self._trouble)
            return Decision(action="wait", reason=self._trouble)
        self._learn_after = 0.0
        self._complaints.pop("learning", None)
        before = pilot.record
        decided = pilot.consider(proposal, seen)
        if decided.action == "apply" and not self._file.save(pilot.record):
            pilot.record = before
            why = f"the record cannot be saved ({self._file.trouble}), so no plan is tried"
            return Decision(action="wait", reason=why)
        return decided

    async def _learn(self, pilot: Autopilot, answers: Answers) -> PlanProposal:
        settings = self._settings
        return await asyncio.to_thread(
            learn,
            settings.traces,
            settings.service,
            pilot.record.in_force,
            budget=settings.budget,
            now_s=time.time(),
            rate_per_s=answers.rate_per_s,
        )

    # Acting.

    def _tell(self, pilot: Autopilot, decision: Decision) -> None:
        """Say a decision, and save the record where it changed."""
        last = pilot.record.entries[-1] if pilot.record.entries else None
        changed = last is not None and last is not self._told
        if changed and last is not None:
            self._say(f"{decision.action.replace('_', ' ')}: {decision.reason}")
            self._trace(last)
            self._told = last
        self._sentence = decision.reason
        if changed or time.monotonic() >= self._saved_at + SAVE_S:
            self._saved_at = time.monotonic()
            if not self._file.save(pilot.record):
                self._sentence = f"{decision.reason}; the record cannot be saved ({self._file.trouble})"

    def _trace(self, entry: LoggedDecision) -> None:
        """Write the span of a decision."""
        if self._spans is not None:
            at_ns = round(entry.at_s * 1e9)
            self._spans.decided(
                DecisionRecord(at_ns=at_ns, action=entry.action, reason=entry.reason, plan=entry.plan)
            )

    async def _follow(self, pilot: Autopilot, answers: Answers) -> None:
        """Put the setting in force at each gateway that has another one."""
        record = pilot.record
        if record.phase == "held":
            return
        setting = SteeredSetting(
            plan=record.in_force,
            trial=record.trial,
            trial_share=record.trial_share,
            control_share=CONTROL_SHARE,
            epoch=self._lease.epoch,
        )
        for url, figures in answers.figures.items():
            if by_person(figures) or self._follows(pilot, figures):
                continue
            try:
                await self._gateways.clients[url].steer(setting)
            except KwikenError as error:
                LOG.warning("%s", error, extra=about(Event.GATEWAY_NOT_TOLD))

    async def _note(self, pilot: Autopilot, answers: Answers, now_s: float) -> None:
        record = pilot.record
        note = AutopilotNote(
            at_s=now_s,
            phase=record.phase,
            sentence=self._sentence[:MAX_REASON],
            budget=record.budget,
            limit=record.limit,
            changes=record.changes,
            useless=record.useless,
            decided={action: record.decided.get(action, 0) for action in ACTIONS},
            history=[
                NoteLine(at_s=each.at_s, action=each.action, reason=each.reason, plan=each.plan)
                for each in record.entries[-MAX_LINES:]
            ],
        )
        await asyncio.gather(*(self._gateways.leave(url, note) for url in answers.figures))

    def _complain(self, topic: str, sentence: str) -> None:
        """Say what keeps the loop from its work; not again where only figures have changed."""
        bare = _FIGURES.sub("", sentence)
        if bare != self._complaints.get(topic):
            self._say(sentence)
        self._complaints[topic] = bare

    def _once(self, sentence: str) -> None:
        """Say something that does not change from step to step once."""
        if sentence != self._sentence:
            self._say(sentence)
        self._sentence = sentence

"""Processes of a cluster: started together, restarted after an end or a hang, and stopped in order."""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.cluster.child_process import Child, ChildError
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.cluster.liveness import Liveness, until_unresponsive
from kwiken.runtime.cluster.slot import Slot
from kwiken.runtime.cluster.state.documents import ProcessState
from kwiken.runtime.wire.transport.base import Replica

LOG = logging.getLogger("kwiken.cluster")
KILL_AFTER_S: Final = 3.0  # after the grace period

Start = Callable[[Slot], Awaitable[Child]]
Check = Callable[[str, float], Awaitable[Liveness]]


class Processes:
    """Gateways and replicas, each in a slot that outlives its processes.

    Args:
        gateways: number of gateways, 1 or more.
        places: place of each replica at the start, by stage; None for a replica without one.
        grace_s: seconds that requests and calls in flight get at the end.
        silence_s: by stage, seconds without a sign of life after which a replica is killed and restarted,
            and under None those of a gateway; empty for never.

    Attributes:
        replicas: slots of the replicas, by stage in the order of the service.
        changed: set whenever a process has ended or started.
    """

    def __init__(
        self,
        gateways: int,
        places: Mapping[str, Sequence[ReplicaPlace | None]],
        start: Start,
        *,
        grace_s: float,
        silence_s: Mapping[str | None, float],
    ) -> None:
        names = [f"gateway-{number}" for number in range(gateways)] if gateways > 1 else ["gateway"]
        self.gateways = [Slot(name, None) for name in names]
        self.replicas = [
            Slot(f"{stage}-{number}", stage, place)
            for stage, wanted in places.items()
            for number, place in enumerate(wanted)
        ]
        self.changed = asyncio.Event()
        self._stages = tuple(places)
        self._numbers = {stage: len(wanted) for stage, wanted in places.items()}
        self._start = start
        self._grace_s = grace_s
        self._silence_s = silence_s

    @property
    def slots(self) -> list[Slot]:
        """All slots, the gateways' first."""
        return [*self.gateways, *self.replicas]

    @property
    def running(self) -> dict[str, list[tuple[Slot, Child]]]:
        """Replicas that are running, by stage."""
        found: dict[str, list[tuple[Slot, Child]]] = {stage: [] for stage in self._stages}
        for slot in self.replicas:
            if slot.child is not None and slot.stage is not None:
                found[slot.stage].append((slot, slot.child))
        return found

    def new_slot(self, stage: str, place: ReplicaPlace) -> Slot:
        """Slot for another replica, with a name that no slot had before; `add` adds it."""
        number = self._numbers[stage]
        self._numbers[stage] += 1
        return Slot(f"{stage}-{number}", stage, place)

    async def add(self, slot: Slot) -> None:
        """Start the process of a new slot; the caller keeps it running.

        Raises:
            ChildError: the process does not start.
        """
        await self._fill(slot)
        self.replicas.append(slot)
        self.changed.set()

    def remove(self, slot: Slot) -> Child | None:
        """Take a slot out, which nobody keeps running any more; returns its process, which still runs."""
        self.replicas.remove(slot)
        child, slot.child = slot.child, None
        self.changed.set()
        return child

    def addresses(self) -> dict[str, list[Replica]]:
        """Addresses of the replicas that are running, by stage."""
        return {
            stage: [Replica(slot.name, slot.node, child.url) for slot, child in running]
            for stage, running in self.running.items()
        }

    @staticmethod
    def states(slots: Iterable[Slot]) -> list[ProcessState]:
        """States of the processes in slots, for the state file; slots without a process are left out."""
        states = [slot.state() for slot in slots]
        return [state for state in states if state is not None]

    async def start_all(self) -> None:
        """Start every process.

        Raises:
            ChildError: one does not start; those that have started are left to `stop_all`.
        """
        starts = [asyncio.create_task(self._fill(slot)) for slot in self.slots]
        try:
            done, _ = await asyncio.wait(starts, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                await task
        finally:
            for task in starts:
                task.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def _fill(self, slot: Slot) -> None:
        slot.fill(await self._start(slot))

    async def keep(self, slot: Slot, check: Check) -> None:
        """Restart a slot's process whenever it ends or hangs; never returns.

        Args:
            check: checks the liveness of the server at a URL, within some seconds.
        """
        while True:
            if slot.child is None:
                await self._refill(slot)
                self.changed.set()
            code, hung = await self._end_of(slot, check)
            wait_s = slot.emptied()
            slot.killed = code == -signal.SIGKILL and not hung
            self.changed.set()
            LOG.warning(
                "%s ended with exit code %s; restart in %g s",
                slot.name,
                code,
                wait_s,
                extra=about(Event.PROCESS_ENDED),
            )
            await asyncio.sleep(wait_s)

    async def _refill(self, slot: Slot) -> None:
        while True:
            try:
                await self._fill(slot)
            except ChildError as error:
                slot.failed_starts += 1
                wait_s = slot.emptied()
                LOG.error(  # noqa: TRY400 - the message has the reason
                    "%s; next try in %g s", error, wait_s, extra=about(Event.PROCESS_NOT_STARTED)
                )
                await asyncio.sleep(wait_s)
            else:
                slot.restarts += 1
                return

    async def _end_of(self, slot: Slot, check: Check) -> tuple[int, bool]:
        """Wait for the end of a slot's process, kill it if it hangs; returns exit code and if it hung."""
        child = slot.child
        assert child is not None
        silent_s = self._silence_s.get(slot.stage)
        if silent_s is None:
            return await child.wait(), False
        end = asyncio.create_task(child.wait())
        silence = asyncio.create_task(
            until_unresponsive(
                functools.partial(check, child.url),
                silent_s=silent_s,
                closed_s=self._grace_s + KILL_AFTER_S,
            )
        )
        try:
            await asyncio.wait({end, silence}, return_when=asyncio.FIRST_COMPLETED)
            hung = not end.done()
            if hung:
                LOG.error(
                    "%s is unresponsive and is killed: %s",
                    slot.name,
                    silence.result().value,
                    extra=about(Event.PROCESS_UNRESPONSIVE),
                )
                child.kill()
            return await end, hung
        finally:
            await cancel_and_wait((end, silence))

    async def stop_all(self, grace_s: float) -> None:
        """Stop the gateways, whose requests need the replicas, then the replicas.

        Args:
            grace_s: seconds for requests and calls in flight; 0 to kill at once.
        """
        try:
            for group in (self.gateways, self.replicas):
                children = [slot.child for slot in group if slot.child is not None]
                await asyncio.gather(*(child.stop(grace_s and grace_s + KILL_AFTER_S) for child in children))
        finally:
            for slot in self.slots:
                if slot.child is not None:
                    slot.child.kill()
                    slot.child = None

"""Runner of batch jobs: takes orders from the folder, starts what the queue decides, and writes the journal.

A job goes through four files, each of which is there as a whole or not at all: the order, the journal's line
that a node was taken, the claim of the process that runs the command, and its result. There are four cases
for a job that the journal has not ended when a program starts:
1. It has a result: its end is noted.
2. It has a claim, and the process lives: it is taken over with its node, and goes on.
3. It has a claim, and the process is gone: it was killed. The end is noted, and the job is not run again.
4. It has no claim: it waits, from the moment at which it was submitted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.machine.files import open_own
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.state.jobs.documents import (
    EventKind,
    JobClaim,
    JobEvent,
    JobOrder,
    QueueView,
    RunningJob,
    WaitingView,
    exit_words,
)
from kwiken.runtime.cluster.state.jobs.folder import JobFolder
from kwiken.runtime.cluster.state.jobs.journal import JobJournal
from kwiken.runtime.node_classes.adopted import AdoptedProcess
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.runtime.process.log_file import LogFile
from kwiken.upkeep.jobs.job_queue import JobQueue, QueueStart, Room

LOG: Final = logging.getLogger("kwiken.jobs")
SHIM: Final = Path(__file__).with_name("shim.py")
STEP_S: Final = 0.1  # interval of looks at the folder
SHOW_S: Final = 1.0  # interval of what `kwiken queue` shows
CLAIM_S: Final = 10.0  # for a process to claim its job
CLAIM_POLL_S: Final = 0.005
MAX_FAILED: Final = 3  # starts of a job that fail before it is given up
STOP_S: Final = 5.0  # for a command to end when told to, before it is killed
MAX_OUTPUT: Final = 64 << 20  # bytes of what a command writes; the last ones are kept beside the file
Process = asyncio.subprocess.Process | AdoptedProcess


class JobRunner:
    """Runs the jobs of one folder on the nodes of a cluster.

    Args:
        folder: folder of the jobs, which this process has locked.
        limits: limits of the nodes, on which the commands run.
        say: called with each start and end, as one line.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        folder: JobFolder,
        room: Room,
        limits: NodeLimits,
        *,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._room = room
        self._limits = limits
        self._say = say
        self._clock = clock
        self._journal = JobJournal(folder.journal)
        self._queue = JobQueue(room)
        self._processes: dict[str, Process] = {}
        self._failed: dict[str, int] = {}  # starts that failed
        self._refused: set[str] = set()  # orders that cannot be read
        self._ends_by_s: dict[str, float] = {}  # when jobs that were told to end are killed, monotonic
        self._shown_s = 0.0
        owner = Identity.of(os.getpid())
        assert owner is not None
        self._owner = owner

    # At the start

    def resume(self) -> None:
        """Take over what a program before this one left: jobs that wait, run or have ended."""
        ended = {event.job for event in self._journal.events if event.kind.final}
        orders: list[JobOrder] = []
        for name in list(self._folder.names()):
            if name in ended:  # a kill came between the journal and the removal
                self._folder.forget(name)
            elif (order := self._order(name)) is not None:
                orders.append(order)
        waiting = []
        for order in orders:
            try:
                claim = self._folder.claim(order.name)
            except InputError as error:  # whoever made it may have run the command
                self._note_end(order.name, "", unread=error)
                continue
            if claim is None:
                waiting.append(order)
            else:
                self._take_over(order, claim)
        known = {event.job for event in self._journal.events}
        for order in sorted(waiting, key=lambda order: order.submitted_at):
            self._arrive(order, again=order.name in known)

    def _take_over(self, order: JobOrder, claim: JobClaim) -> None:
        if claim.runner.alive and not self._folder.has_result(order.name):
            process = AdoptedProcess(claim.runner)
            with contextlib.suppress(
                KwikenError
            ):  # its node is not there any more; it goes on without limits
                self._limits.adopt(
                    process, name=_key(order.name), limit=self._limit(order, claim.node), node=claim.node
                )
            self._queue.resume(order, claim.node, claim.started_at)
            self._processes[order.name] = process
            self._say(f"job {order.name} goes on on {claim.node}")
        else:
            self._note_end(order.name, claim.node)

    # Steps

    async def run(self) -> None:
        """Run jobs; never returns. A step that fails is logged, and the next ones are taken."""
        while True:
            try:
                await self.step()
            except Exception:
                LOG.exception("a step of the jobs failed", extra=about(Event.UPKEEP_FAILED))
            await asyncio.sleep(STEP_S)

    async def step(self) -> None:
        """Take new orders, note ends, and start what may start."""
        for name in list(self._folder.names()):
            known = name in self._queue.waiting or name in self._queue.running or name in self._refused
            if not known and (order := self._order(name)) is not None:
                self._arrive(order)
        await self._cancel_asked()
        await self._note_ends()
        starts = self._queue.advance(self._clock())
        for start in starts:
            await self._start(start)
        if self._clock() >= self._shown_s + SHOW_S or starts:
            self._shown_s = self._clock()
            self._folder.show(self.view())
            for name in self._processes:
                await asyncio.to_thread(LogFile(self._folder.log(name), most=MAX_OUTPUT).shorten)

    def _order(self, name: str) -> JobOrder | None:
        """Order of a job; one that cannot be read is told once and left alone."""
        try:
            return self._folder.order(name)
        except InputError as error:
            if name not in self._refused:
                self._refused.add(name)
                self._say(f"job {name} is not taken: {error}")
            return None

    def _arrive(self, order: JobOrder, *, again: bool = False) -> None:
        arrived_s = min(order.submitted_at, self._clock())
        self._queue.arrive(order, arrived_s)
        if again:
            return
        self._append(order.name, EventKind.ARRIVED)
        if not self._room.could_hold(order.cores, order.memory_gb):
            self._say(
                f"job {order.name} waits for a larger node: none has {order.cores:g} cores and "
                f"{order.memory_gb:g} GB"
            )

    async def _note_ends(self) -> None:
        for name, process in list(self._processes.items()):
            if not self._folder.has_result(name) and process.returncode is None:
                if time.monotonic() < self._ends_by_s.get(name, math.inf):
                    continue
                await self._limits.end(_key(name))  # it was told to end and goes on
            held = self._queue.running[name]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            await self._limits.end(_key(name))
            del self._processes[name]
            self._queue.ended(name)
            self._note_end(name, held.node)

    def _note_end(self, name: str, node: str, *, unread: InputError | None = None) -> None:
        """Note the end of a job that was claimed, then remove its files.

        Args:
            unread: error of its claim; None for a claim that could be read.
        """
        result = None
        if unread is None:
            try:
                result = self._folder.result(name)
            except InputError as error:
                unread = error
        told = self._ends_by_s.pop(name, None) is not None
        if result is None:
            reason = "the process that ran it was killed; it is not run again"
            if unread is not None:
                reason = f"{unread}; it is not run again"
            elif told:
                reason = f"it was told to end, and was killed after {STOP_S:g} s"
            self._append(name, EventKind.INTERRUPTED, node=node, reason=reason)
            self._say(f"job {name}{f' on {node}' if node else ''}: {reason}")
        else:
            self._journal.append(
                JobEvent(at=result.ended_at, job=name, kind=EventKind.ENDED, node=node, code=result.code)
            )
            self._say(f"job {name} on {node} ended with {exit_words(result.code)}")
        self._folder.forget(name)

    async def _cancel_asked(self) -> None:
        for name in [name for name in self._queue.waiting if self._folder.cancel_is_asked(name)]:
            self._queue.cancel(name)
            self._append(name, EventKind.CANCELLED, reason="as asked")
            self._folder.forget(name)
            self._say(f"job {name} is cancelled")
        for name, process in self._processes.items():
            if process.returncode is None and self._folder.cancel_is_asked(name):
                self._folder.path(name, ".cancel").unlink(missing_ok=True)
                self._tell_to_end(name, process)

    def _tell_to_end(self, name: str, process: Process) -> None:
        """Tell a command to end; `_note_ends` kills one that does not."""
        self._ends_by_s.setdefault(name, time.monotonic() + STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)

    async def _start(self, start: QueueStart) -> None:
        held = self._queue.running[start.job]
        self._append(start.job, EventKind.PLACED, node=start.node, waited_s=round(start.waited_s, 3))
        self._say(f"job {start.job} starts on {start.node} after {start.waited_s:.3g} s")
        try:
            process = await self._launch(held.order, start.node)
            claim = await self._claim(start.job, process)
        except (KwikenError, OSError) as error:
            await self._not_started(start.job, f"could not be started: {error}")
            return
        if claim is None:
            await self._not_started(start.job, "its process ended before it began")
        elif claim.runner.pid != process.pid:  # one that a killed program had started came first
            await self._limits.end(_key(start.job))
            self._queue.ended(start.job)
            self._take_over(held.order, claim)
        else:
            self._processes[start.job] = process

    async def _not_started(self, name: str, reason: str) -> None:
        """Put a job back that no process has claimed."""
        order = self._queue.running[name].order
        await self._limits.end(_key(name))
        self._queue.ended(name)
        claim = self._folder.claim(name)
        self._failed[name] = self._failed.get(name, 0) + 1
        if claim is not None:
            self._note_end(name, claim.node)
        elif self._failed[name] < MAX_FAILED:
            self._say(f"job {name} waits again: {reason}")
            self._queue.arrive(order, self._clock())
        else:
            self._append(name, EventKind.CANCELLED, reason=reason)
            self._folder.forget(name)
            self._say(f"job {name} is given up: {reason}")

    async def _launch(self, order: JobOrder, node: str) -> asyncio.subprocess.Process:
        paths = [self._folder.path(order.name, suffix).absolute() for suffix in (".claim", ".result")]
        out = self._limits.exit_file
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with os.fdopen(open_own(self._folder.log(order.name), flags), "ab") as log:
            return await self._limits.start(
                [
                    *(sys.executable, "-I", "-S", str(SHIM), *map(str, paths), node, order.folder),
                    *(("--out", str(out)) if out is not None else ()),
                    *("--", *order.command),
                ],
                name=_key(order.name),
                limit=self._limit(order, node),
                node=node,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
            )

    async def _claim(self, name: str, process: asyncio.subprocess.Process) -> JobClaim | None:
        """Claim of a job that was started; None if its process ended without one."""
        ended = asyncio.create_task(process.wait())
        try:
            async with asyncio.timeout(CLAIM_S):
                while (claim := self._folder.claim(name)) is None and not ended.done():  # noqa: ASYNC110
                    await asyncio.sleep(CLAIM_POLL_S)
        except TimeoutError:
            raise KwikenError("it did not begin in time") from None
        finally:
            ended.cancel()
        return claim if claim is not None else self._folder.claim(name)

    def _limit(self, order: JobOrder, node: str) -> Limit:
        return Limit(order.cores, self._room.speed(node))

    def _append(self, job: str, kind: EventKind, **fields: object) -> None:
        self._journal.append(JobEvent(at=self._clock(), job=job, kind=kind, **fields))  # type: ignore[arg-type]

    # At the end, and to show

    @property
    def occupied(self) -> set[str]:
        """Nodes on which jobs run."""
        return {held.node for held in self._queue.running.values()}

    async def close(self) -> None:
        """Tell what runs to stop, and note how each ended; what waits goes on waiting."""
        for name, process in self._processes.items():
            if process.returncode is None:
                self._tell_to_end(name, process)
        deadline = time.monotonic() + STOP_S
        while any(process.returncode is None for process in self._processes.values()):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        for name, process in list(self._processes.items()):
            node = self._queue.running[name].node
            await self._limits.end(_key(name))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            self._note_end(name, node)
        self._processes.clear()
        self._journal.close()
        self._folder.unlock()

    def view(self) -> QueueView:
        """The queue as `kwiken queue` shows it."""
        now_s = self._clock()
        return QueueView(
            owner=self._owner,
            seen_at=now_s,
            waiting=[
                WaitingView(
                    job=order.name,
                    cores=order.cores,
                    waited_s=now_s - order.submitted_at,
                    takes_s=order.takes_s,
                    priority=order.priority,
                    too_large=not self._room.could_hold(order.cores, order.memory_gb),
                )
                for order in self._queue.in_turn()
            ],
            running=[
                RunningJob(job=name, node=held.node, cores=held.order.cores, ran_s=now_s - held.started_s)
                for name, held in self._queue.running.items()
            ],
        )


def _key(job: str) -> str:
    """Name of a job's process among the limits."""
    return f"job/{job}"

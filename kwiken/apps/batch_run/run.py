"""Run of planned jobs on Dask: each on its racks' workers, by its priority; a lost rack is ignored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kwiken.apps.batch_run.dask_jobs import DaskJobs, connect, workers_by_rack, workers_of
from kwiken.apps.batch_run.decisions import JobSubmission, RunDecisions
from kwiken.base.errors import InputError, KwikenError
from kwiken.batch.racks.document import RackPlan

POLL_S: Final = 0.5  # between two looks at the workers
GONE_S: Final = 10.0  # for which a scheduler may not answer
Say = Callable[[str], None]


@dataclass
class BatchRunOutcome:
    """Outcome of the planned jobs.

    Attributes:
        ended_s: end of each job since the run's start, seconds.
        failed: message of each job that failed.
        again: number of jobs that were submitted anew because their racks were lost.
    """

    ended_s: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    again: int = 0

    @property
    def makespan_s(self) -> float:
        """Time to the last end, seconds; 0 if none ended."""
        return max(self.ended_s.values(), default=0.0)


class BatchRun:
    """One run of the jobs of a plan.

    Args:
        plan: racks, priority and arrival of each job.
        jobs: the jobs as collections of Dask.
        say: takes one line for each decision.
        place_data: whether the jobs' data is kept on their racks; else Dask chooses.
        follow: whether tasks are restricted to the plan's racks; else Dask chooses.
    """

    def __init__(
        self, plan: RackPlan, jobs: DaskJobs, say: Say, *, place_data: bool = True, follow: bool = True
    ) -> None:
        self.plan, self.jobs, self.say = plan, jobs, say
        self.place_data, self.follow = place_data, follow
        self.outcome = BatchRunOutcome()
        self._client: Any = None
        self._data: dict[str, Any] = {}
        self._results: dict[str, Any] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.started = asyncio.Event()  # set when the first job is submitted
        self._start_s = 0.0
        self._told_none = False  # that no worker is left
        missing = [job.name for job in plan.jobs if jobs.job(job.name) is None]
        if missing:
            raise InputError(f"JOBS has no job {missing[0]!r} of the plan", where="module")

    async def run(self, address: str, started: Callable[[], None] | None = None) -> BatchRunOutcome:
        """Run all jobs.

        Args:
            address: HOST:PORT of the scheduler.
            started: called when the data is in place and the first job is about to be submitted.

        Raises:
            InputError: the scheduler does not answer or has no worker of a rack, or the data of a job fails.
            KwikenError: the scheduler is gone before all jobs have ended.
        """
        try:
            client = await connect(address)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(f"no scheduler of Dask answers: {error}", where=address) from error
        try:
            self._client = client
            workers = workers_by_rack(await workers_of(client))
            ad_hoc = self.jobs.unplanned(job.name for job in self.plan.jobs)
            decisions = RunDecisions(self.plan, workers, ad_hoc)
            await self._load(decisions)
            self._start_s = time.monotonic()
            self.started.set()
            if started is not None:
                started()
            await self._until_all_ended(decisions)
        finally:
            for task in self._tasks.values():
                task.cancel()
            self._data.clear()
            self._results.clear()
            await client.close(timeout=CLOSE_S)
        return self.outcome

    async def _load(self, decisions: RunDecisions) -> None:
        """Keep each job's data in the memory of its racks' workers, or where Dask wants it."""
        from distributed import wait

        for job in self.plan.jobs:
            build = self.jobs.data_of(job.name)
            if build is None:
                continue
            where = [address for rack in job.racks for address in sorted(decisions.alive[rack])]
            restricted = {"workers": where} if self.place_data and self.follow else {}
            try:
                self._data[job.name] = self._client.persist(build(), **restricted)
            except Exception as error:
                problem = f"DATA[{job.name!r}] fails: {type(error).__name__}: {error}"
                raise InputError(problem, where="module") from error
        if self._data:
            await wait(list(self._futures()))

    def _futures(self) -> Any:
        from distributed import futures_of

        for held in self._data.values():
            yield from futures_of(held)

    async def _until_all_ended(self, decisions: RunDecisions) -> None:
        while decisions.left:
            now_s = time.monotonic() - self._start_s
            for submission in decisions.due(now_s):
                await self._submit(submission)
            wait_s = POLL_S
            due_s = decisions.next_due_s()
            if due_s is not None:
                wait_s = min(wait_s, max(0.0, due_s - now_s))
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(wait_s)
            alive = await self._workers(decisions.left)
            self._collect(decisions)
            for submission in decisions.now_alive(set(alive)):
                if self.follow:
                    await self._submit(submission)

    async def _workers(self, left: int) -> Mapping[str, Any]:
        """Workers that answer; a scheduler that is gone ends the run, none left is told once."""
        try:
            found = await asyncio.wait_for(workers_of(self._client), GONE_S)
        except (OSError, TimeoutError) as error:
            raise KwikenError(f"the scheduler of Dask is gone; {left} jobs have not ended") from error
        if not found and not self._told_none:
            self._line("no worker is left: jobs wait until one comes")
        self._told_none = not found
        return found

    def _line(self, text: str) -> None:
        self.say(f"{time.monotonic() - self._start_s:6.1f} s  {text}")

    async def _submit(self, submission: JobSubmission) -> None:
        name = submission.job
        if submission.again:
            self.outcome.again += 1
            self._tasks.pop(name).cancel()
            await self._drop(name)
        options: dict[str, Any] = {"priority": -submission.priority} if self.follow else {}
        if submission.workers and self.follow:
            options["workers"] = list(submission.workers)
        where = ", ".join(submission.racks) if submission.racks and self.follow else "all racks"
        self._line(f"{name} goes to {where}: {submission.reason if self.follow else 'no plan is followed'}")
        try:
            futures = self._computed(name, options)
        except Exception as error:  # noqa: BLE001 - of the module's own functions
            self._tasks[name] = asyncio.create_task(_fail(error))
        else:
            self._results[name] = futures
            self._tasks[name] = asyncio.create_task(self._finish(futures))

    def _computed(self, name: str, options: Mapping[str, Any]) -> Any:
        """Futures of a job's results, from the module's functions."""
        build, load = self.jobs.job(name), self.jobs.data_of(name)
        assert build is not None
        if load is not None and name not in self._data:  # it was dropped with a lost rack
            self._data[name] = self._client.persist(load())
        data = self._data.get(name)
        return self._client.compute(build() if data is None else build(data), **options)

    async def _drop(self, name: str) -> None:
        """Forget a job's data and results: tasks of the same names would keep their old restrictions."""
        from distributed import futures_of

        for held in (self._results, self._data):
            # Released, not cancelled: a scheduler that cancels tasks whose dependents nobody waits for fails.
            for future in futures_of(held.pop(name, ())):
                future.release()
        await asyncio.sleep(FORGET_S)

    async def _finish(self, futures: Any) -> None:
        """Wait for a job's results, which stay on the workers and are dropped there."""
        from distributed import futures_of, wait

        found = futures_of(futures)
        if not found:
            raise KwikenError("its function has returned no collection of Dask")
        await wait(found)
        for future in found:
            if future.status == "error":
                raise await future.exception()

    def _collect(self, decisions: RunDecisions) -> None:
        for name, task in list(self._tasks.items()):
            if not task.done():
                continue
            del self._tasks[name]
            now_s = time.monotonic() - self._start_s
            error = task.exception() if not task.cancelled() else KwikenError("Dask has cancelled its tasks")
            if error is not None:
                kind = "" if isinstance(error, KwikenError) else f"{type(error).__name__}: "
                self.outcome.failed[name] = f"{kind}{error}"
                self._line(f"{name} failed: {self.outcome.failed[name]}")
            else:
                self.outcome.ended_s[name] = now_s
                self._line(f"{name} has ended")
            self._data.pop(name, None)
            self._results.pop(name, None)
            changes = decisions.job_ended(name, now_s)
            for line in changes if self.follow else ():
                self._line(line)


async def _fail(error: Exception) -> None:
    raise error


CLOSE_S: Final = 5.0
FORGET_S: Final = 0.2  # for the scheduler to forget tasks that are released

"""Run of services on the nodes of a placement: targets kept, jobs run, nodes rented, replicas repacked."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kwiken.apps.console.output import note
from kwiken.base.errors import InputError
from kwiken.cli.placing.placement_inputs import Placed
from kwiken.runtime.base.log_events import Event, log_event

if TYPE_CHECKING:
    import asyncio

    from kwiken.allocator.adaptation.job_room import JobRoom
    from kwiken.runtime.cluster.cluster import Cluster
    from kwiken.runtime.cluster.layout import Layout
    from kwiken.runtime.node_classes.node_limits import NodeLimits
    from kwiken.upkeep.jobs.job_runner import JobRunner
    from kwiken.upkeep.node_repacker import NodeRepacker
    from kwiken.upkeep.on_nodes import OnNodes
    from kwiken.upkeep.rented_nodes import RentedNodes
    from kwiken.upkeep.upkeep import Upkeep

LOG: Final = logging.getLogger("kwiken.up")


@contextlib.contextmanager
def claimed_nodes(nodes_file: str, *, alone: bool) -> Iterator[None]:
    """Hold a lock on a document of nodes; the kernel releases the lock when this process ends.

    Programs that only follow a placement may share the nodes: the placement has divided them. A program that
    moves replicas needs the nodes for itself, since its ledger holds only its own replicas.

    Args:
        alone: whether replicas are started, resized and moved here.

    Raises:
        InputError: another program holds a lock that excludes this one, or the file cannot be read.
    """
    try:
        file = Path(nodes_file).open("rb")  # noqa: SIM115 - closed by the next statement
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=nodes_file) from error
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another kwiken up has its replicas on these nodes, and neither would know what the other "
                "one draws; give one kwiken up all services: kwiken up SERVICE SERVICE ...",
                where=nodes_file,
            ) from None
        yield


@contextlib.asynccontextmanager
async def on_nodes(
    starts: Mapping[str, Callable[[Layout | None], Cluster]], placed: Placed, folder: Path
) -> AsyncIterator[tuple[dict[str, Cluster], Callable[[asyncio.Event], Coroutine[Any, Any, None]] | None]]:
    """Clusters on the nodes of a placement, and what keeps their targets and runs jobs, if there are any."""
    from kwiken.upkeep.on_nodes import clusters_on_nodes
    from kwiken.upkeep.upkeep import Upkeep

    adaptation, assignment, nodes_file = placed.adaptation, placed.assignment, placed.nodes_file
    down = placed.renter.down if placed.renter is not None else ()
    with contextlib.ExitStack() as claim:
        if nodes_file is not None:
            claim.enter_context(claimed_nodes(nodes_file, alone=adaptation is not None))
        if placed.renter is not None:
            _settle(folder)
        async with clusters_on_nodes(starts, placed.nodes, placed.replicas, down=down) as running:
            log_event(LOG, Event.NODES_PLAYED, f"nodes are played by {running.limits.method.value}")
            if adaptation is None or assignment is None:
                yield running.clusters, None
                return
            tell = functools.partial(log_event, LOG, Event.UPKEEP_ACTED)
            speeds = {name: node.speed for name, node in placed.nodes.items()}
            with _renting(placed, running.limits, folder, tell) as rented:
                async with _jobs(folder, adaptation.job_room(speeds), running.limits) as jobs:
                    upkeep = Upkeep(
                        *(adaptation, assignment, running.clusters, running.limits),
                        say=tell,
                        rented=rented,
                        jobs=jobs,
                        repacker=_repacker(placed, running, tell),
                    )
                    yield running.clusters, functools.partial(_keep_targets, upkeep, jobs)


def _repacker(placed: Placed, running: OnNodes, tell: Callable[[str], None]) -> NodeRepacker | None:
    """What repacks the replicas by what they use, if that is wanted."""
    import time

    from kwiken.upkeep.node_repacker import NodeRepacker

    adaptation, assignment = placed.adaptation, placed.assignment
    if placed.repack is None or adaptation is None or assignment is None:
        return None
    return NodeRepacker(
        adaptation.repacking(placed.repack, time.monotonic()),
        keys=lambda: adaptation.keys,
        nodes=placed.nodes,
        assignment=assignment,
        use=running.limits,
        clusters=running.clusters,
        targets_ms=adaptation.targets_ms,
        say=tell,
    )


@contextlib.asynccontextmanager
async def _jobs(folder: Path, room: JobRoom, limits: NodeLimits) -> AsyncIterator[JobRunner | None]:
    """What runs the batch jobs of this folder of state; None if another program does."""
    from kwiken.runtime.cluster.state.jobs.folder import JobFolder
    from kwiken.upkeep.jobs.job_runner import JobRunner

    jobs = JobFolder(folder)
    if not jobs.lock():
        note(f"note: another kwiken up takes the jobs of {jobs.folder}")
        yield None
        return
    runner = JobRunner(jobs, room, limits, say=functools.partial(log_event, LOG, Event.JOB))
    try:
        runner.resume()
        yield runner
    finally:
        await runner.close()


def _settle(folder: Path) -> None:
    """End what an owner that was killed has rented, and say so."""
    from kwiken.runtime.cluster.state.rentals import settle_orphans

    if orphans := settle_orphans(folder):
        note(f"note: rented by a kwiken up that was killed, and given back: {', '.join(orphans)}")


@contextlib.contextmanager
def _renting(
    placed: Placed, limits: NodeLimits, folder: Path, tell: Callable[[str], None]
) -> Iterator[RentedNodes | None]:
    """What rents nodes, if there are prices; at the end every rented node is given back."""
    import time

    from kwiken.upkeep.rental_journal import RentalJournal
    from kwiken.upkeep.rented_nodes import RentedNodes

    if placed.renter is None:
        yield None
        return
    journal = RentalJournal(folder, placed.currency, time.monotonic())
    rented = RentedNodes(placed.renter, placed.nodes, limits, journal, say=tell)
    rented.seen(time.monotonic())
    try:
        yield rented
    finally:
        rented.end(time.monotonic())


async def _keep_targets(upkeep: Upkeep, jobs: JobRunner | None, stop: asyncio.Event) -> None:
    """Keep targets and run jobs until told to stop; a failure ends the program."""
    import asyncio

    from kwiken.runtime.base.event_loop import cancel_and_wait

    await upkeep.start_best_effort()
    stopped = asyncio.create_task(stop.wait())
    keeping = [asyncio.create_task(upkeep.run())]
    if jobs is not None:
        keeping.append(asyncio.create_task(jobs.run()))
    try:
        await asyncio.wait({stopped, *keeping}, return_when=asyncio.FIRST_COMPLETED)
        for task in keeping:
            if task.done():
                await task
    finally:
        await cancel_and_wait([stopped, *keeping])

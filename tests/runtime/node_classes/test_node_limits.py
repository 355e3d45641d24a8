"""Processes under limits: the share that they get, together on a node, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.base.machine.control_groups import group_folders
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import LimitMethod, NodeLimits
from tests.support.runtime.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")

SPIN = [sys.executable, "-c", "while True: pass"]
SPIN_FOUR_TIMES = [sys.executable, "-c", "import os\nos.fork()\nos.fork()\nwhile True: pass"]
SPIN_TWICE = [sys.executable, "-c", "import os\nos.fork()\nwhile True: pass"]
LOOSE = 3.0  # factor within which a ratio of shares must be: other programs share the processors
TRIES = 5  # each of a second
Share = Callable[[list[float]], float]


def works(method: LimitMethod) -> bool:
    async def tried() -> bool:
        try:
            async with NodeLimits(method):
                return True
        except InputError:
            return False

    return asyncio.run(tried())


METHODS = [
    pytest.param(method, marks=[] if works(method) else pytest.mark.skip(f"{method.value} do not work here"))
    for method in LimitMethod
]


@pytest.fixture(params=METHODS)
async def limits(request: pytest.FixtureRequest) -> AsyncIterator[NodeLimits]:
    async with NodeLimits(request.param) as found:
        yield found


def used_s(pid: int) -> float:
    """Processor time of a process and its children that are alive, seconds."""
    pids = [pid]
    for each in pids:
        for thread in Path(f"/proc/{each}/task").iterdir():
            pids += map(int, (thread / "children").read_text().split())
    return sum(time.clock_gettime((~each << 3) | 2) for each in pids)


async def check_use(processes: list[asyncio.subprocess.Process], share: Share, expected: float) -> None:
    """Check how the processor time of processes is divided; a machine that is busy for a moment gets more tries.

    Args:
        processes: processes that would use all the time that they get.
        share: ratio to check, by the processor time that each process used over the same second.
        expected: the ratio that should come out, but for a factor of `LOOSE`.
    """
    await asyncio.sleep(0.3)
    tried = []
    for _ in range(TRIES):
        before = [used_s(process.pid) for process in processes]
        await asyncio.sleep(1.0)
        used = [used_s(process.pid) - first for process, first in zip(processes, before, strict=True)]
        if expected / LOOSE <= share(used) <= expected * LOOSE:
            return
        tried.append(used)
    pytest.fail(f"the ratio should be {expected:g}; used, seconds: {tried}")


async def test_processes_get_time_in_the_ratio_of_their_limits(limits: NodeLimits) -> None:
    quick = await limits.start(SPIN, name="quick", limit=Limit(cores=0.5, speed=0.4))
    slow = await limits.start(SPIN, name="slow", limit=Limit(cores=0.25, speed=0.2))
    await check_use([quick, slow], lambda used: used[0] / used[1], 4.0)


async def test_a_process_and_its_children_share_one_limit(limits: NodeLimits) -> None:
    one = await limits.start(SPIN, name="one", limit=Limit(cores=0.15))
    four = await limits.start(SPIN_FOUR_TIMES, name="four", limit=Limit(cores=0.15))
    # It would be a quarter if each child had the limit.
    await check_use([one, four], lambda used: used[0] / used[1], 1.0)


async def test_the_processes_of_a_node_share_its_limit(limits: NodeLimits) -> None:
    limits.add_node("small", Limit(cores=1, speed=0.1))
    inside = [
        await limits.start(SPIN, name=f"inside-{number}", limit=Limit(cores=1), node="small")
        for number in range(2)
    ]
    free = await limits.start(SPIN, name="free", limit=Limit(cores=0.2))
    await check_use([*inside, free], lambda used: used[2] / (used[0] + used[1]), 2.0)


async def test_a_limit_changes_while_its_process_runs(limits: NodeLimits) -> None:
    grown = await limits.start(SPIN, name="grown", limit=Limit(cores=0.05))
    same = await limits.start(SPIN, name="same", limit=Limit(cores=0.05))
    limits.resize("grown", Limit(cores=0.25))
    await check_use([grown, same], lambda used: used[0] / used[1], 5.0)


async def test_a_node_that_is_lost_takes_all_its_processes_along(limits: NodeLimits) -> None:
    for node in ("lost", "kept"):
        limits.add_node(node, Limit(cores=1))
    lost = [
        await limits.start(SPIN_TWICE, name=f"lost-{number}", limit=Limit(cores=0.1), node="lost")
        for number in range(2)
    ]
    kept = await limits.start(SPIN, name="kept", limit=Limit(cores=0.1), node="kept")
    await asyncio.sleep(0.2)
    await limits.remove_node("lost")
    assert [process.returncode for process in lost] == [-signal.SIGKILL, -signal.SIGKILL]
    assert kept.returncode is None
    with pytest.raises(InputError, match="no node 'lost'"):
        await limits.start(SPIN, name="late", limit=None, node="lost")
    limits.add_node("lost", Limit(cores=1))  # it is back


@pytest.mark.skipif(not works(LimitMethod.CONTROL_GROUPS_1), reason="version 1 does not work here")
async def test_a_node_weighs_as_much_as_its_processes() -> None:
    async with NodeLimits(LimitMethod.CONTROL_GROUPS_1) as limits:
        limits.add_node("node", Limit(cores=1))
        for number in range(3):
            await limits.start(SPIN, name=f"inside-{number}", limit=Limit(cores=0.01), node="node")
        await limits.start(SPIN, name="alone", limit=Limit(cores=0.01))
        (tree,) = [one for one in groups() if int(one.name.split(".")[2]) == os.getpid()]
        weights = sorted(int((group / "cpu.shares").read_text()) for group in [tree, *tree.glob("[0-9]*")])
        assert weights == [1024, 3 * 1024, 4 * 1024]


async def test_a_name_is_free_again_once_its_process_was_ended(limits: NodeLimits) -> None:
    first = await limits.start(SPIN, name="one", limit=Limit(cores=0.1))
    with pytest.raises(InputError, match="'one' exists already"):
        await limits.start(SPIN, name="one", limit=None)
    await limits.end("one")
    assert first.returncode == -signal.SIGKILL
    await limits.start(SPIN, name="one", limit=None)
    await limits.end("never started")


@pytest.mark.parametrize("method", METHODS)
async def test_the_end_leaves_neither_processes_nor_groups(method: LimitMethod) -> None:
    before = groups()
    async with NodeLimits(method) as limits:
        limits.add_node("node", Limit(cores=1))
        process = await limits.start(SPIN_TWICE, name="one", limit=Limit(cores=0.1), node="node")
        await until(lambda: len(family_of(process.pid)) == 2)
        family = family_of(process.pid)
    assert process.returncode == -signal.SIGKILL
    await until(lambda: not any(each.alive for each in family))
    assert groups() == before


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turns", [1, 2, 3])
async def test_a_start_that_is_cancelled_leaves_no_groups(method: LimitMethod, turns: int) -> None:
    """A thread makes the groups, and a cancelled task does not end a thread."""
    before = groups()

    async def enter() -> None:
        async with NodeLimits(method):
            pass

    start = asyncio.create_task(enter())
    for _ in range(turns):
        await asyncio.sleep(0)
    start.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await start
    await asyncio.get_running_loop().shutdown_default_executor()
    assert groups() == before


async def test_a_command_that_does_not_exist_is_told_by_its_exit_code(limits: NodeLimits) -> None:
    process = await limits.start(
        ["/no/such/program"], name="none", limit=Limit(cores=0.1), stderr=subprocess.PIPE
    )
    _, text = await process.communicate()
    assert process.returncode == 127
    assert text.decode() == "/no/such/program: no such command\n"


async def test_a_command_keeps_its_arguments_its_environment_and_its_processors(limits: NodeLimits) -> None:
    program = "import os, sys; print(sys.argv[1:], os.environ['FRUIT'], sorted(os.sched_getaffinity(0)))"
    processor = min(os.sched_getaffinity(0))
    process = await limits.start(
        [sys.executable, "-c", program, "--join", "a b", "--"],
        name="said",
        limit=Limit(cores=1, processors=frozenset({processor})),
        stdout=subprocess.PIPE,
        env={**os.environ, "FRUIT": "plum"},
    )
    text, _ = await process.communicate()
    assert text.decode() == f"['--join', 'a b', '--'] plum [{processor}]\n"


PARENT = """
import asyncio, os, sys
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import LimitMethod, NodeLimits

async def main():
    async with NodeLimits(LimitMethod[sys.argv[1]]) as limits:
        limits.add_node("node", Limit(cores=1))
        process = await limits.start(
            [sys.executable, "-c", "import os, time; os.fork(); time.sleep(600)"],
            name="one", limit=Limit(cores=0.5), node="node", stdout=asyncio.subprocess.DEVNULL,
        )
        print(process.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("method", METHODS)
async def test_what_a_killed_program_leaves_is_removed_by_the_next(method: LimitMethod) -> None:
    before = groups()
    command = [sys.executable, "-c", PARENT, method.name]
    parent = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    await until(lambda: len(family_of(pid)) == 2)
    leader, *others = family_of(pid)
    parent.kill()
    await parent.wait()
    try:
        await until(lambda: not leader.alive)
        if method is not LimitMethod.SIGNALS:
            assert groups() != before
            async with NodeLimits(method):
                pass
            await until(lambda: not any(each.alive for each in others))
        assert groups() == before
    finally:
        for each in others:
            each.signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 0.0}, "cores must be above 0"),
        ({"cores": float("nan")}, "cores must be above 0"),
        ({"cores": 1.0, "speed": 1.5}, "speed must be above 0 and at most 1, not 1.5"),
        ({"cores": 1.0, "speed": -1.0}, "speed must be above 0"),
        ({"cores": 1.0, "processors": frozenset()}, "processors must not be empty"),
    ],
)
def test_limits_out_of_range_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Limit(**change)  # type: ignore[arg-type]


async def test_without_the_right_to_make_groups_processes_are_paused(tmp_path: Path) -> None:
    async with NodeLimits(root=tmp_path) as limits:  # no /sys/fs/cgroup there
        assert limits.method is LimitMethod.SIGNALS
    with pytest.raises(InputError, match="cannot limit processes here by control groups, version 2"):
        async with NodeLimits(LimitMethod.CONTROL_GROUPS_2, root=tmp_path):
            pass


def groups() -> set[Path]:
    """Trees of control groups on this machine, but for those of programs that run beside this test."""
    places = {place for place, _ in group_folders("cpu", Path("/"))}
    return {
        tree
        for place in places
        for tree in place.glob("kwiken-nodes.*")
        if int(tree.name.split(".")[2]) == os.getpid()
        or not Path(f"/proc/{tree.name.split('.')[2]}").exists()
    }


def family_of(pid: int) -> list[Identity]:
    """A process and its children, those that are alive."""
    pids = [pid]
    with contextlib.suppress(OSError):
        pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [identity for each in pids if (identity := Identity.of(each)) is not None]

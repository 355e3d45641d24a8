"""Engines: jobs on a real Dask scheduler with workers, one of whom dies; and clusters that cannot be used."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from kwiken.base.errors import InputError, KwikenError
from kwiken.base.jobs import Job
from kwiken.cli.shared import engines
from kwiken.cli.shared.engines import spread
from kwiken.cli.verbs import kwiken
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_to_json
from kwiken.tail.planning.planner import make_plan
from papers.worlds.__main__ import command as fleet
from tests.support.models.queue_profiles import queue_profile
from tests.support.otel.folders import folder_of
from tests.support.runtime.server_processes import free_port

ROOT = Path(__file__).resolve().parents[3]
MANY = 12


def root_of(number: float) -> float:
    """A job; it takes a while, so that a worker can die while it runs."""
    time.sleep(0.2)
    return float(number**0.5)


def dies_once(marker: str, number: float) -> float:
    """A job whose first worker is killed."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return root_of(number)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def fails(number: float) -> float:
    raise ValueError(f"no root of {number}")


@contextlib.contextmanager
def program(*words: str, ready: str) -> Iterator[None]:
    """A program of Dask, from the line that says it is ready to its end."""
    with subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:
        assert child.stderr is not None
        try:
            for line in child.stderr:
                if ready in line:
                    break
            # The log is read to its end: a program whose pipe is full waits, and answers nobody.
            threading.Thread(target=child.stderr.read, daemon=True).start()
            yield
        finally:
            os.killpg(child.pid, signal.SIGKILL)


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Address of a scheduler with workers, for `--engine`."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            program(
                "dask_scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--no-dashboard",
                ready="Scheduler at",
            )
        )
        for _ in range(workers):
            stack.enter_context(
                program(
                    "dask_worker",
                    f"tcp://{address}",
                    "--nthreads",
                    "1",
                    "--no-dashboard",
                    ready="Registered to",
                )
            )
        yield f"dask://{address}"


@pytest.mark.slow
def test_results_are_those_of_this_machine_and_a_dead_worker_costs_none(tmp_path: Path) -> None:
    with cluster(2) as engine:
        done: list[int] = []
        jobs: list[Job] = [(root_of, (number,)) for number in range(MANY)]
        jobs[3] = (dies_once, (str(tmp_path / "died"), 3))
        found = list(spread(jobs, engine, None, lambda: done.append(1)))
        assert found == [number**0.5 for number in range(MANY)]
        assert len(done) == MANY
        assert (tmp_path / "died").exists()
        with pytest.raises(ValueError, match="no root of 5"):
            list(spread([(fails, (5,))], engine, None, lambda: None))
        words = ["cloud-low", "--manager", "least-loaded", "--seeds", "2", "--json"]
        here = CliRunner().invoke(fleet, words, catch_exceptions=False)
        there = CliRunner().invoke(fleet, [*words, "--engine", engine], catch_exceptions=False)
        assert here.exit_code == there.exit_code == 0
        assert here.stdout == there.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the profile, the plan and the queues of a service, and its traces in several files."""
    path = tmp_path_factory.mktemp("recorded")
    profile = queue_profile(60, requests=1500)
    (path / "profile.json").write_text(profile_to_json(profile))
    (path / "plan.json").write_text(make_plan(profile, budgets=Budgets(reissue=0.05), created="").to_json())
    (path / "traces").mkdir()
    folder_of(path / "traces", files=6, lines=40)
    return path


LARGE: dict[str, tuple[str, ...]] = {
    "simulate": ("simulate", "{}/profile.json", "--plan", "{}/plan.json", "--requests", "140000"),
    "simulate --load": ("simulate", "{}/profile.json", "--plan", "{}/plan.json", "--load", "1.2"),
    "judge": ("judge", "{}/plan.json", "{}/profile.json"),
    "judge --blocks": ("judge", "{}/profile.json", "--blocks", "3"),
    "size": ("size", "{}/profile.json", "--target-p99", "80ms", "--rate", "60"),
    "fit": ("fit", "{}/traces"),
}


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make jobs small: few requests of each size that is tried, and a file a job."""
    for name in (
        "trials.MIN_TRIAL",
        "trials.MAX_TRIAL",
        "verification.MIN_VERIFIED",
        "verification.MAX_VERIFIED",
    ):
        monkeypatch.setattr(f"kwiken.allocator.capacity.{name}_REQUESTS", 400)
    monkeypatch.setattr("kwiken.otel.trace.load.PART_BYTES", 1)


def told(verb: str, folder: Path, *more: str) -> Any:
    """JSON of a verb."""
    words = [word.format(folder) for word in LARGE[verb]]
    done = CliRunner().invoke(kwiken, [*words, "--json", *more], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return without_dates(json.loads(done.stdout))


def without_dates(document: Any) -> Any:
    """The document without the times at which plans and placements were made, and what depends on these."""
    if isinstance(document, dict):
        return {name: without_dates(value) for name, value in document.items() if name != "created"}
    return [without_dates(value) for value in document] if isinstance(document, list) else document


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_verbs_find_the_same_on_a_cluster_while_a_worker_is_killed(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    here = {verb: told(verb, recorded) for verb in LARGE}
    with cluster(2) as engine, ending_a_worker() as killed:
        for verb in LARGE:
            assert told(verb, recorded, "--engine", engine) == here[verb], verb
    assert killed, "a worker was lost meanwhile"


@contextlib.contextmanager
def ending_a_worker() -> Iterator[list[int]]:
    """Kill the worker of the youngest supervisor once jobs run; Dask's own supervisor starts another."""
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(0.05) and not killed:
            for pid in workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                break

    watcher = threading.Timer(1.0, kill)
    watcher.start()
    try:
        yield killed
    finally:
        ended.set()
        watcher.join()


def workers() -> list[int]:
    """Workers that Dask's supervisors, which this test started, have started themselves."""
    found = []
    for pid in children(os.getpid()):
        if "dask_worker" in command(pid):
            found += [child for child in children(pid) if "spawn_main" in command(child)]
    return found


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        threads = Path(f"/proc/{pid}/task").iterdir()
        return [int(each) for thread in threads for each in (thread / "children").read_text().split()]
    return []


def command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.slow
def test_verbs_find_the_same_with_processes_of_this_machine(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    for verb in ("simulate", "judge", "size", "fit"):
        assert told(verb, recorded, "--jobs", "2") == told(verb, recorded), verb


@pytest.mark.slow
def test_a_cluster_without_workers_or_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [(root_of, (4,))]
    with cluster(0) as engine, pytest.raises(InputError, match="no workers"):
        list(spread(jobs, engine, None, lambda: None))
    with cluster(1) as engine:
        monkeypatch.setattr("importlib.metadata.version", lambda _: "0.0.0")
        with pytest.raises(InputError, match=r"worker tcp://127.* has kwiken .*, and here is 0\.0\.0"):
            list(spread(jobs, engine, None, lambda: None))


@pytest.mark.slow
def test_jobs_end_with_an_error_when_the_last_worker_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "NO_WORKER_S", 1.0)
    with contextlib.ExitStack() as workers, cluster(0) as engine:
        words = ("dask_worker", engine.replace("dask", "tcp"), "--nthreads", "1", "--no-dashboard")
        workers.enter_context(program(*words, ready="Registered to"))
        results = spread([(root_of, (number,)) for number in range(400)], engine, None, lambda: None)
        assert next(results) == 0.0
        workers.close()
        with pytest.raises(KwikenError, match="no worker of the Dask cluster is left, for 1 s now"):
            list(results)


class Waiting:
    """Future of a job whose result comes after some looks at the workers; None for never."""

    def __init__(self, looks: int | None, error: Exception | None = None) -> None:
        self.looks, self.error = looks, error

    def done(self) -> bool:
        return self.looks == 0

    def result(self, timeout: float | None = None) -> str:
        if self.looks == 0:
            if self.error is not None:
                raise self.error
            return "result"
        assert timeout is not None
        self.looks = None if self.looks is None else self.looks - 1
        raise TimeoutError


def run_on(workers: int, future: Waiting) -> list[str]:
    client = Mock(submit=Mock(return_value=future), nthreads=Mock(return_value={"w": 1} if workers else {}))
    return list(engines.DaskEngine(client).run([(root_of, (4,))]))


def test_a_job_is_waited_for_while_there_are_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "NO_WORKER_S", 0.0)
    assert run_on(1, Waiting(5)) == ["result"]
    with pytest.raises(TimeoutError, match="of the job"):
        run_on(1, Waiting(5, TimeoutError("of the job")))
    with pytest.raises(KwikenError, match="no worker"):
        run_on(0, Waiting(None))


@pytest.mark.parametrize(
    ("engine", "processes", "told"),
    [
        ("ray://h:1", None, "must be local or dask://HOST:PORT"),
        ("dask://", None, "must be local or dask://HOST:PORT"),
        ("dask://127.0.0.1:9", 3, "--jobs"),
    ],
)
def test_engines_that_do_not_exist_are_refused(engine: str, processes: int | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        list(spread([(root_of, (4,))], engine, processes, lambda: None))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ANSWER_S", 0.5)
    engine = f"dask://127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match="no Dask scheduler answers at tcp://127"):
        list(spread([(root_of, (4,))], engine, None, lambda: None))


def test_jobs_of_this_machine_come_in_order() -> None:
    assert list(spread([(root_of, (n,)) for n in range(4)], "local", 2, lambda: None)) == [
        n**0.5 for n in range(4)
    ]

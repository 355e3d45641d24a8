"""Engines: jobs on a real Dask scheduler with workers, one of whom dies; and clusters that cannot be used."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwiken.base.errors import InputError
from kwiken.cli.shared import engines, spread
from kwiken.cli.verbs import kwiken
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
        jobs: list[engines.Job] = [(root_of, (number,)) for number in range(MANY)]
        jobs[3] = (dies_once, (str(tmp_path / "died"), 3))
        found = list(spread(jobs, engine, None, lambda: done.append(1)))
        assert found == [number**0.5 for number in range(MANY)]
        assert len(done) == MANY
        assert (tmp_path / "died").exists()
        with pytest.raises(ValueError, match="no root of 5"):
            list(spread([(fails, (5,))], engine, None, lambda: None))
        words = ["fleet", "cloud-low", "--manager", "least-loaded", "--seeds", "2", "--json"]
        here = CliRunner().invoke(kwiken, words, catch_exceptions=False)
        there = CliRunner().invoke(kwiken, [*words, "--engine", engine], catch_exceptions=False)
        assert here.exit_code == there.exit_code == 0
        assert here.stdout == there.stdout


@pytest.mark.slow
def test_a_cluster_without_workers_or_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [(root_of, (4,))]
    with cluster(0) as engine, pytest.raises(InputError, match="no workers"):
        list(spread(jobs, engine, None, lambda: None))
    with cluster(1) as engine:
        monkeypatch.setattr("importlib.metadata.version", lambda _: "0.0.0")
        with pytest.raises(InputError, match=r"worker tcp://127.* has kwiken .*, and here is 0\.0\.0"):
            list(spread(jobs, engine, None, lambda: None))


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

"""`kwiken submit` and `kwiken queue` without a cluster: orders on disk, bad input, and what is shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kwiken.base.errors import InputError
from kwiken.cli.queue.queue import command as queue
from kwiken.cli.queue.submit import command as submit
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.cluster.state.jobs.documents import (
    EventKind,
    JobEvent,
    QueueView,
    RunningJob,
    WaitingView,
)
from kwiken.runtime.cluster.state.jobs.folder import JobFolder
from kwiken.runtime.cluster.state.jobs.journal import JobJournal, read_events
from tests.support.allocation.jobs import order


def run(command: Any, *words: str) -> Any:
    return CliRunner().invoke(command, list(words), standalone_mode=False)


def test_an_order_is_on_disk_with_what_was_said(tmp_path: Path) -> None:
    done = run(
        submit,
        *("--state", str(tmp_path), "--cores", "2", "--needs", "l3-capacity=0.65", "--takes", "30"),
        *("--priority", "3", "--json", "--", "python", "-c", "print(1)"),
    )
    assert done.exit_code == 0, done.output
    found = JobFolder(tmp_path).order(json.loads(done.stdout)["job"])
    assert found is not None
    assert found.name.startswith("python-")
    assert (found.cores, found.takes_s, found.priority, found.command) == (
        2,
        30,
        3,
        ["python", "-c", "print(1)"],
    )
    assert found.caused == {"l3-capacity": 0.65}
    assert (tmp_path / "jobs" / f"{found.name}.job").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--needs", "l9=0.5"], "SOURCE=SHARE with a source of cpu-int"),
        (["--needs", "disk=1.5"], "must be a share from 0 to 1"),
        (["--needs", "disk=nan"], "must be a share from 0 to 1"),
        (["--needs", "disk=0.1", "--needs", "disk=0.2"], "given twice"),
        (["--name", "../up"], "starts with a letter"),
        (["--cores", "1e9"], "cores: must be above 0"),
        (["--takes", "1e12"], "takes_s: must be above 0"),
        (["--memory", "1e9"], "memory_gb: must be from 0"),
    ],
)
def test_bad_orders_are_refused(tmp_path: Path, words: list[str], problem: str) -> None:
    done = run(submit, "--state", str(tmp_path), *words, "--", "true")
    assert isinstance(done.exception, InputError)
    assert problem in str(done.exception)
    assert not list(tmp_path.glob("jobs/*.job"))


def test_a_name_comes_once(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.submit(order("one"))
    with pytest.raises(InputError, match="is there already"):
        folder.submit(order("one"))


@pytest.mark.parametrize("text", ["{", '{"version": 2}', '{"version": 1, "name": "x", "colour": 1}'])
def test_a_broken_order_names_its_file(tmp_path: Path, text: str) -> None:
    folder = JobFolder(tmp_path)
    folder.submit(order("one"))
    folder.path("one", ".job").write_text(text)
    with pytest.raises(InputError, match=r"one\.job"):
        folder.order("one")


def test_a_journal_drops_the_line_that_a_kill_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = JobJournal(path)
    journal.append(JobEvent(at=1.0, job="one", kind=EventKind.ARRIVED))
    journal.close()
    path.write_bytes(path.read_bytes() + b'{"at":2.0,"jo')
    again = JobJournal(path)
    again.append(JobEvent(at=3.0, job="one", kind=EventKind.CANCELLED))
    again.close()
    assert [event.at for event in read_events(path)] == [1.0, 3.0]
    path.write_bytes(b"no\n" + path.read_bytes())
    with pytest.raises(InputError, match="line 1: is not an event"):
        read_events(path)


def test_the_queue_shows_who_waits_and_says_when_nobody_takes_jobs(tmp_path: Path) -> None:
    assert "no jobs" in run(queue, "--state", str(tmp_path)).output
    folder = JobFolder(tmp_path)
    folder.submit(order("one"))
    alone = run(queue, "--state", str(tmp_path))
    assert alone.return_value == 1
    assert "no kwiken up --nodes takes jobs" in alone.output
    owner = Identity.of(os.getpid())
    assert owner is not None
    waiting = WaitingView(job="one", cores=1.0, waited_s=90.0, takes_s=7200.0, priority=-4)
    running = RunningJob(job="two", node="large-1", cores=2.0, ran_s=5.0)
    folder.show(
        QueueView(
            owner=owner,
            seen_at=0.0,
            waiting=[waiting],
            running=[running],
        )
    )
    shown = run(queue, "--state", str(tmp_path)).output
    for word in ("one", "-4", "2 h", "1.5 min", "large-1"):
        assert word in shown
    document = json.loads(run(queue, "--state", str(tmp_path), "--json").stdout)
    assert document["queue"]["waiting"][0]["takes_s"] == 7200.0


def test_a_cancel_needs_a_job_that_is_there(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.submit(order("one"))
    assert isinstance(run(queue, "--state", str(tmp_path), "--cancel", "two").exception, InputError)
    run(queue, "--state", str(tmp_path), "--cancel", "one")
    assert folder.cancel_is_asked("one")


@pytest.mark.parametrize("option", ["--quality", "--wait"])
def test_options_of_lines_say_what_to_use(tmp_path: Path, option: str) -> None:
    done = run(submit, "--state", str(tmp_path), option, "60", "--", "true")
    assert f"{option} was removed; use --priority" in str(done.exception)

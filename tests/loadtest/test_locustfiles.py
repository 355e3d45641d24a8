"""Locustfiles of the package, each run as it stands against a server that answers."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.support.loadtest.load_commands import Serve, lines
from tests.support.loadtest.locust_commands import LOCUSTFILE, Locust, finish

FILES = sorted(path for path in LOCUSTFILE.parent.glob("*.py") if path != LOCUSTFILE)
ENOUGH = 20  # requests


def test_there_is_a_file_for_each_kind_of_load() -> None:
    assert [path.stem for path in FILES] == ["closed_loop", "day", "open_loop", "queries", "soak", "spike"]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_it_runs_as_it_stands(serve: Serve, locust: Locust, tmp_path: Path, file: Path) -> None:
    log = tmp_path / "seen"
    more = ("--users", "20", "--spawn-rate", "20") if file.stem == "closed_loop" else ()
    process = locust("--headless", "--host", serve("--log", str(log)), *more, file=file)
    end = time.monotonic() + 50
    while process.poll() is None and time.monotonic() < end:
        if log.exists() and log.read_bytes().count(b"\n") >= ENOUGH:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 0, err
    assert "Traceback" not in err
    asked = [json.loads(request["body"])["query"] for request in lines(log)]
    assert len(asked) >= ENOUGH
    assert (len(set(asked)) > 1) == (file.stem == "queries")

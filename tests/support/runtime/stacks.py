"""A cluster started by `kwiken up` beside programs that are not Python's."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.runtime.server_processes import KWIKEN

TARGET = "tests.support.services.http:service"


def kwiken(*words: str) -> str:
    """Run a verb, and return its standard output.

    Raises:
        AssertionError: the verb failed; says what it wrote.
    """
    done = subprocess.run([*KWIKEN, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running_cluster(state: Path, *options: str) -> Iterator[str]:
    """A gateway and six replicas of the test service; yields the gateway's URL.

    Args:
        state: folder of the cluster's state.
        options: further options of `kwiken up`.
    """
    url = kwiken("up", TARGET, "--port", "0", "--detach", "--state", str(state), *options).strip()
    try:
        yield url
    finally:
        kwiken("down", "--state", str(state))


def ask(url: str, *, sleep_ms: float = 0.0) -> None:
    """Send one request whose middle calls wait for a time."""
    body = json.dumps({"text": "hi", "sleep_ms": sleep_ms}).encode()
    request = urllib.request.Request(url + "/v1/request", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30):
        pass

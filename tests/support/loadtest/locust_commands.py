"""Locust's own command in tests, with the locustfile of the package or one of a test."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.runtime.waiting import PATIENCE_S

LOCUSTFILE = Path(__file__).resolve().parents[3] / "loadtest" / "locustfile.py"
Locust = Callable[..., "subprocess.Popen[str]"]
"""Starts Locust's command with arguments and `file`, and does not wait."""


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, once it has ended."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class Page:
    """Locust's page, as a browser uses it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str, form: dict[str, str] | None = None) -> Any:
        """JSON of an answer; with a form it is posted."""
        data = None if form is None else urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(self.url + path, data=data, timeout=10) as answer:
            return json.loads(answer.read())

    def until(self, path: str, done: Callable[[Any], bool]) -> Any:
        """Ask again until an answer fits; at most 30 s."""
        end = time.monotonic() + PATIENCE_S
        value: Any = None
        while time.monotonic() < end:
            try:
                value = self.get(path)
            except (urllib.error.URLError, ConnectionError):
                value = None
            if value is not None and done(value):
                return value
            time.sleep(0.1)
        raise AssertionError(f"{path} stayed at {value}")

"""Files of `kwiken/` that run for one request, and for one `kwiken plan --reissue`: how wide the code is.

A request passes a gateway and a replica of each of two stages, each a process of its own. Of five requests
the one with the most files counts. A function counts if it runs between the request and its answer, and does
not run while the service is idle. Functions that run while modules are imported do not count.

The plan is made from a profile that `kwiken fit` has learned from the traces of such a service.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.harness import Row

HOOK: Final = "benchmarks.command.touched_hook"
SERVICE: Final = "benchmarks.command.two_stages:two_stages"
STAGES: Final = ("tidy", "greet")
MAX_FILES_OF_REQUEST: Final = 35
MAX_FILES_OF_PLAN: Final = 49
STARTED_S: Final = 60.0
IDLE_S: Final = 5.0  # longer than the period of every background task that runs between requests
AFTER_S: Final = 0.5  # time for work that follows an answer
REQUESTS: Final = 5
TRACED: Final = 1500
CLIENTS: Final = 4
BODY: Final = b'{"name":" Ann "}'
Files = Mapping[str, Sequence[str]]


class Program:
    """One `kwiken` command with the recorder in it.

    Args:
        folder: folder for its record and its log.
        name: name of the record, one for each process.
    """

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self._out = folder / f"{name}.json"
        self._log = (folder / f"{name}.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", HOOK, str(self._out), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def reset(self) -> None:
        """Empty its record."""
        self._process.send_signal(signal.SIGUSR1)

    def files(self) -> Files:
        """Functions that ran since the last reset, by file."""
        self._out.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR2)
        end = time.monotonic() + STARTED_S
        while not self._out.exists():
            if time.monotonic() > end:
                raise RuntimeError(f"{self._out.name} was not written")
            time.sleep(0.05)
        return read(self._out)

    def end(self) -> Files:
        """Wait for the end of a command that ends by itself; returns its record.

        Raises:
            RuntimeError: the command failed.
        """
        if self._process.wait(STARTED_S):
            raise RuntimeError(Path(self._log.name).read_text(encoding="utf-8"))
        self._log.close()
        return read(self._out)

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(STARTED_S)
        self._log.close()


def read(path: Path) -> Files:
    """Record of a process."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, list[str]])


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[dict[str, Program], str]]:
    """Replicas and gateway of the service, each with the recorder, and the gateway's URL.

    Args:
        folder: folder for records and logs.
        options: further options of `kwiken serve`.
    """
    ports = {name: free_port() for name in (*STAGES, "gateway")}
    programs = {
        name: Program(folder, name, "stage", SERVICE, "--stage", name, "--port", str(ports[name]))
        for name in STAGES
    }
    replicas = (f"--replica={name}=127.0.0.1:{ports[name]}" for name in STAGES)
    programs["gateway"] = Program(
        folder, "gateway", "serve", SERVICE, "--port", str(ports["gateway"]), *replicas, *options
    )
    try:
        yield programs, f"http://127.0.0.1:{ports['gateway']}"
    finally:
        for program in programs.values():
            program.stop()


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def ask(url: str) -> bytes:
    """Send one request, on a connection of its own; returns the answer."""
    request = urllib.request.Request(f"{url}/v1/request", BODY, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STARTED_S) as response:
        found: bytes = response.read()
        return found


def ask_until_answered(url: str) -> None:
    """Send requests until one is answered: every process has started then."""
    end = time.monotonic() + STARTED_S
    while True:
        try:
            ask(url)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def functions_of_request(programs: Mapping[str, Program], url: str) -> dict[str, set[str]]:
    """Functions by file that run for a request, in any process, and not between requests."""
    idle = recorded(programs, IDLE_S)
    most: dict[str, set[str]] = {}
    for _ in range(REQUESTS):
        found: dict[str, set[str]] = {}
        for name, files in recorded(programs, AFTER_S, url).items():
            for file, functions in files.items():
                if own := set(functions) - set(idle[name].get(file, ())):
                    found.setdefault(file, set()).update(own)
        most = max(most, found, key=len)
    return most


def recorded(programs: Mapping[str, Program], wait_s: float, url: str | None = None) -> dict[str, Files]:
    """Records of the processes for a while, which begins with a request to a URL if one is given.

    Args:
        wait_s: length of the while, seconds, after the answer.
    """
    for program in programs.values():
        program.reset()
    time.sleep(0.1)
    if url is not None:
        ask(url)
    time.sleep(wait_s)
    return {name: program.files() for name, program in programs.items()}


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(folder) as (programs, url):
            ask_until_answered(url)
            request = functions_of_request(programs, url)
        traces = folder / "traces"
        with served(folder, "--traces", str(traces), "--trace", "all") as (_, url):
            ask_until_answered(url)
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(lambda _: ask(url), range(TRACED // 3 if quick else TRACED)))
        profile = str(folder / "profile.json")
        Program(folder, "fit", "fit", str(traces), "-o", profile).end()
        plan = Program(folder, "plan", "plan", profile, "--reissue", "0.05").end()
    for what, files in (("a request", request), ("plan --reissue", plan)):
        print(f"files of {what}, with the functions:", file=sys.stderr)
        for file, functions in sorted(files.items()):
            print(f"  {file}: {', '.join(sorted(functions))}", file=sys.stderr)
    return [
        Row(name=f"files that {what} runs in", ours=len(files), unit="files", target=most)
        for what, files, most in (
            ("a request through two stages", request, MAX_FILES_OF_REQUEST),
            ("`kwiken plan --reissue`", plan, MAX_FILES_OF_PLAN),
        )
    ]

"""Process that runs Ray Serve, as a program of its own.

It says on one line of its standard output where Serve's proxy and where the first stage listen, and ends when
its standard input closes. Ray runs in a process of its own because it takes over its process' signals and
logging, and because whatever it started can then be waited for: orphans become this process' children, and
none outlives it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

NEEDED: Final = ("ray", "starlette", "uvicorn")
SETTINGS: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # else its processes give way to ours and to everybody's
    # Ray then takes loopback as its node's address, as it does on the systems the setting is named after;
    # else it listens on every interface.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Serve's own setting for throughput: calls between deployments by gRPC instead of actor tasks, no threads
    # apart for the handler and for the router, logs written in blocks, no garbage collection of what is there
    # from the start.
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",  # for the proxy's calls too
    # The first stage listens for itself too, beside the proxy, and on loopback.
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "1",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # its five seconds are too few on a busy machine
}
HOST: Final = "RAY_SERVE_DEFAULT_HTTP_HOST"
HAPROXY: Final = "RAY_SERVE_HAPROXY"
# What HAProxy keeps in files, which else lie in one folder for all of a machine's users. Sockets' paths are
# limited to some hundred bytes, and Ray adds 57 of its own.
HAPROXY_FILES: Final = {
    "CONFIG_FILE_LOC": "c",
    "SOCKET_PATH": "s",
    "METRICS_SOCKET_PATH": "m",
    "SERVER_STATE_BASE": "",
    "SERVER_STATE_FILE": "f",
}
DIRECT: Final = "RAY_SERVE_DIRECT_INGRESS"
READY_S: Final = 120.0
END_S: Final = 60.0
ORPHANS_S: Final = 10.0
ADOPT_ORPHANS: Final = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h


def missing() -> list[str]:
    """The modules that Ray Serve needs and that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def environment(folder: str, *, haproxy: bool) -> dict[str, str]:
    """The environment of Ray's processes: ours without its settings, with those of this benchmark."""
    root = str(Path(__file__).parents[3])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    paths = [root, *filter(None, [kept.get("PYTHONPATH")])]
    port = free_port()
    made = {
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": folder,
        "RAY_AUTH_MODE": "token",  # as it comes, but for the token, which Ray else leaves in the home folder
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        f"{DIRECT}_MIN_HTTP_PORT": str(port),
        f"{DIRECT}_MAX_HTTP_PORT": str(port + 1),  # the first that is not to be taken
    }
    return kept | SETTINGS | made | (_by_haproxy(folder) if haproxy else {HOST: "127.0.0.1"})


def _by_haproxy(folder: str) -> dict[str, str]:
    files = {f"{HAPROXY}_{name}": str(Path(folder, file)) for name, file in HAPROXY_FILES.items()}
    ports = {f"{HAPROXY}_{name}_PORT": str(free_port()) for name in ("METRICS", "STATS")}
    return {"RAY_SERVE_ENABLE_HA_PROXY": "1"} | files | ports


@contextlib.asynccontextmanager
async def ray_serve(*, haproxy: bool) -> AsyncIterator[tuple[str, str]]:
    """Serve the chain by Ray Serve; the addresses of the proxy and of the first stage.

    Args:
        haproxy: whether the proxy is HAProxy, which listens on every interface, not the one in Python.

    Raises:
        RuntimeError: when it does not start; with the end of what it said.
    """
    with (
        tempfile.TemporaryDirectory(prefix="kw-ray-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile() as said,
    ):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.gateway.ray_serve.ray_process",
            folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            env=environment(folder, haproxy=haproxy),
            start_new_session=True,  # an interrupt ends it by its closed input, in good order
        )
        try:
            yield await _addresses(process, said)
        finally:
            await _end(process)


async def _addresses(process: asyncio.subprocess.Process, said: IO[bytes]) -> tuple[str, str]:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line.startswith(b"http://"):
        said.seek(0)
        raise RuntimeError("Ray Serve did not start:\n" + said.read()[-4000:].decode(errors="replace"))
    proxy, direct = line.decode().split()
    return proxy, direct


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input and wait; kill it where it does not end, and the kernel ends Ray's node with it."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), END_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def serve_chain(folder: str) -> None:
    """Run Ray on loopback until the standard input closes."""
    adopt_orphans()
    tell = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints is not for the reader of the address
    import ray  # noqa: I001 - only this process needs it
    from ray import serve
    from benchmarks.gateway.ray_serve.ray_app import application

    try:
        ray.init(
            address="local",
            num_cpus=3,  # one a stage; proxy and controller ask for none
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 1024 * 1024,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        port = free_port()
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": "127.0.0.1", "port": port},
            logging_config={"enable_access_log": False, "log_level": "WARNING"},
        )
        serve.run(
            application(),
            route_prefix="/v1/request",
            logging_config={"enable_access_log": False, "log_level": "WARNING"},
        )
        places = (f"http://127.0.0.1:{place}" for place in (port, os.environ[f"{DIRECT}_MIN_HTTP_PORT"]))
        print(*places, file=tell, flush=True)
        sys.stdin.read()
    finally:
        with contextlib.suppress(Exception):
            serve.shutdown()
        ray.shutdown()
        end_orphans(ORPHANS_S)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def adopt_orphans() -> None:
    """Have processes whose parent ended become this process' children, where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)


def end_orphans(patience_s: float) -> int:
    """Wait for this process' children to end, and kill those that do not; how many had to be killed."""
    killed: set[int] = set()
    start = time.monotonic()
    while (waited := time.monotonic() - start) < 2 * patience_s:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            continue
        if waited > patience_s:
            for child in children():
                os.kill(child, signal.SIGKILL)
                killed.add(child)
        time.sleep(0.05)
    return len(killed)


def children() -> list[int]:
    """Child processes, adopted ones included; empty without procfs."""
    threads = Path("/proc/self/task").glob("*/children")
    return [int(pid) for thread in threads for pid in thread.read_text().split()]


if __name__ == "__main__":
    serve_chain(sys.argv[1])

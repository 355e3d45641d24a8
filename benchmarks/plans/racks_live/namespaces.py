"""Racks of this machine: network namespaces, one a rack, whose links a token bucket limits.

A namespace stands for the core: a bridge to which each rack has one link. Both ends of a link are limited, so
that a rack sends and receives at the rate of its uplink. This process has an unlimited link of its own. All
is deleted with the namespaces.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.base.errors import KwikenError

SUBNET: Final = "10.213.77"  # of the racks' own network, which nothing outside of this machine reaches
BURST: Final = "64k"  # of the token bucket
QUEUE: Final = "50ms"  # longest wait in a link's queue
COMMAND_S: Final = 10.0


@dataclass(frozen=True)
class LocalRack:
    """Rack of this machine.

    Attributes:
        host: address of its processes.
        prefix: words to put before a command, so that it runs in the rack.
    """

    name: str
    host: str
    prefix: tuple[str, ...]


@dataclass(frozen=True)
class LocalRacks:
    """Racks of this machine, and the address at which they reach this process.

    Attributes:
        limited: whether the racks have links of their own, which are limited.
    """

    racks: tuple[LocalRack, ...]
    host: str
    limited: bool


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except OSError as error:
        raise KwikenError(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        raise KwikenError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")


@contextlib.contextmanager
def local_racks(names: Sequence[str], uplink_mbit_per_s: float) -> Iterator[LocalRacks]:
    """Make the racks; they are deleted at the end.

    Args:
        names: names of the racks, at most 200.
        uplink_mbit_per_s: rate of each rack's link, Mbit per second.

    Yields:
        The racks.

    Raises:
        KwikenError: this process may not make them; says which command failed.
    """
    tag = f"kw{os.getpid() % 100_000}"
    made: list[str] = []
    core = f"{tag}-core"
    rate = f"{uplink_mbit_per_s:g}mbit"
    try:
        _run("ip", "netns", "add", core)
        made.append(core)
        _run("ip", "-n", core, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", core, "link", "set", "br0", "up")
        _run("ip", "link", "add", f"{tag}h", "type", "veth", "peer", "name", f"{tag}c", "netns", core)
        _run("ip", "-n", core, "link", "set", f"{tag}c", "master", "br0", "up")
        _run("ip", "addr", "add", f"{SUBNET}.2/24", "dev", f"{tag}h")
        _run("ip", "link", "set", f"{tag}h", "up")
        racks = []
        for place, name in enumerate(names):
            space, near, far, host = (
                f"{tag}-{place}",
                f"{tag}u{place}",
                f"{tag}d{place}",
                f"{SUBNET}.{10 + place}",
            )
            _run("ip", "netns", "add", space)
            made.append(space)
            _run("ip", "-n", space, "link", "add", near, "type", "veth", "peer", "name", far, "netns", core)
            _run("ip", "-n", core, "link", "set", far, "master", "br0", "up")
            _run("ip", "-n", space, "addr", "add", f"{host}/24", "dev", near)
            _run("ip", "-n", space, "link", "set", near, "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            for where, device in ((space, near), (core, far)):
                _run(
                    *("tc", "-n", where, "qdisc", "add", "dev", device, "root"),
                    *("tbf", "rate", rate, "burst", BURST, "latency", QUEUE),
                )
            racks.append(LocalRack(name, host, ("ip", "netns", "exec", space)))
        yield LocalRacks(tuple(racks), f"{SUBNET}.2", limited=True)
    finally:
        for space in reversed(made):
            with contextlib.suppress(KwikenError):
                _run("ip", "netns", "del", space)


def one_network(names: Sequence[str]) -> LocalRacks:
    """Racks that share this machine's loopback, without limits: where namespaces cannot be made."""
    return LocalRacks(tuple(LocalRack(name, "127.0.0.1", ()) for name in names), "127.0.0.1", limited=False)

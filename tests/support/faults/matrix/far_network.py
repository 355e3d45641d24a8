"""Network namespace whose path loses packets and delays them; nothing outside of it is changed but one address.

`netem` is not on every kernel. Packets are dropped by the `statistic` match of iptables, and wait in the queue of
a narrow token bucket. A packet that was lost comes again after 200 ms or more, as TCP has it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

LOST: Final = "0.05"  # share of the packets in each direction
NARROW: Final = ("rate", "1mbit", "burst", "2kb", "latency", "400ms")
PREFIX: Final = "10.213"  # of the addresses of both ends


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


class FarNetwork:
    """A network namespace that is up.

    Attributes:
        host: address of what listens in it.
        enter: words before a command that is to run in it.
    """

    def __init__(self, name: str, host: str) -> None:
        self.host = host
        self.enter = ("ip", "netns", "exec", name)


@contextlib.contextmanager
def far_network(number: int) -> Iterator[FarNetwork | None]:
    """A network namespace; None where this process may not make one or a tool is missing.

    Args:
        number: number from 0 to 63 that no other one of this process has.
    """
    if os.geteuid() or not all(shutil.which(tool) for tool in ("ip", "tc", "iptables")):
        yield None
        return
    tag, subnet = f"kwf{os.getpid() % 1_000_000}{number}", f"{PREFIX}.{os.getpid() % 250}.{4 * number}"
    near, far = (
        subnet.rpartition(".")[0] + f".{4 * number + 1}",
        subnet.rpartition(".")[0] + f".{4 * number + 2}",
    )
    inside = ("ip", "netns", "exec", tag)
    try:
        try:
            _run("ip", "netns", "add", tag)
            _run("ip", "link", "add", f"{tag}a", "type", "veth", "peer", "name", f"{tag}b", "netns", tag)
            _run("ip", "addr", "add", f"{near}/30", "dev", f"{tag}a")
            _run("ip", "link", "set", f"{tag}a", "up")
            _run("ip", "-n", tag, "addr", "add", f"{far}/30", "dev", f"{tag}b")
            _run("ip", "-n", tag, "link", "set", f"{tag}b", "up")
            _run("ip", "-n", tag, "link", "set", "lo", "up")
            _run("tc", "-n", tag, "qdisc", "add", "dev", f"{tag}b", "root", "tbf", *NARROW)
            for chain in ("INPUT", "OUTPUT"):
                way = ("-i" if chain == "INPUT" else "-o", f"{tag}b")
                match = ("-m", "statistic", "--mode", "random", "--probability", LOST)
                _run(*inside, "iptables", "-A", chain, *way, *match, "-j", "DROP")
        except subprocess.CalledProcessError:
            found = None
        else:
            found = FarNetwork(tag, far)
        yield found
    finally:
        subprocess.run(("ip", "netns", "del", tag), check=False, capture_output=True)

"""Programs in a network namespace of their own, which has a loopback and nothing else.

A server in there that listens on every interface is heard by the programs in there alone.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
from shutil import which
from typing import Final

SET_FLAGS: Final = 0x8914  # SIOCSIFFLAGS, linux/sockios.h
UP: Final = 0x1  # IFF_UP, linux/if.h
TRIED_S: Final = 10.0  # time limit of the trial


def own_namespace() -> list[str]:
    """The start of a command that runs in a network namespace of its own; empty without `unshare`."""
    program = which("unshare")
    if program is None:
        return []
    # Whoever is not root is root in a namespace of users, too, and may then make one of networks.
    return [program, "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def refused() -> str:
    """Why no network namespace can be made here; empty where one can."""
    start = own_namespace()
    if not start:
        return "there is no `unshare`"
    tried = subprocess.run([*start, "true"], capture_output=True, text=True, timeout=TRIED_S, check=False)
    return tried.stderr.strip() if tried.returncode else ""


def open_loopback() -> None:
    """Let this namespace's loopback carry traffic, which it does not in a new one.

    Raises:
        PermissionError: outside of a namespace of one's own.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SET_FLAGS, struct.pack("16sH22x", b"lo", UP))


def interfaces() -> list[str]:
    """Names of this namespace's network interfaces."""
    return [name for _, name in socket.if_nameindex()]

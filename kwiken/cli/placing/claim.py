"""Claim on a document of nodes: one program at a time keeps targets there, since each has its own ledger."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from kwiken.base.errors import InputError


@contextlib.contextmanager
def claimed_nodes(nodes_file: str, *, alone: bool) -> Iterator[None]:
    """Hold a lock on a document of nodes; the kernel releases the lock when this process ends.

    Programs that only follow a placement may share the nodes: the placement has divided them. A program that
    moves replicas needs the nodes for itself, since its ledger holds only its own replicas.

    Args:
        alone: whether replicas are started, resized and moved here.

    Raises:
        InputError: another program holds a lock that excludes this one, or the file cannot be read.
    """
    try:
        file = Path(nodes_file).open("rb")  # noqa: SIM115 - closed by the next statement
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=nodes_file) from error
    with file:
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another kwiken up has its replicas on these nodes, and neither would know what the other "
                "one draws; give one kwiken up all services: kwiken up SERVICE SERVICE ...",
                where=nodes_file,
            ) from None
        yield

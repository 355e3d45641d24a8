"""State files of a running cluster: `STATE/SERVICE.json`, `.token`, `.plan`, `.lock`, `.log`."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from kwiken.base.errors import InputError
from kwiken.base.machine.files import READABLE, open_own, own_folder, read_own, replace_own
from kwiken.runtime.cluster.state.documents import ClusterState

MAX_STATE: Final = 64 << 20  # bytes
MAX_TOKEN: Final = 4096  # bytes
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")


class StateFiles:
    """State files of one service's cluster.

    Args:
        folder: folder of the files; created when something is written.

    Raises:
        InputError: the text cannot be a service's name.
    """

    def __init__(self, folder: Path, service: str) -> None:
        if not _NAME.match(service):
            raise InputError("is no service's name", where=repr(service[:80]))
        self.folder = folder
        self.service = service
        self.state = folder / f"{service}.json"
        self.token = folder / f"{service}.token"
        self.log = folder / f"{service}.log"
        self.plan = folder / f"{service}.plan"
        self._lock_path = folder / f"{service}.lock"
        self._lock: IO[bytes] | None = None

    @classmethod
    def all(cls, folder: Path) -> Iterator[StateFiles]:
        """State files of all clusters in a folder; none if the folder does not exist.

        Raises:
            InputError: the folder cannot be read; its clusters may be running.
        """
        try:
            paths = sorted(folder.iterdir())  # `glob` would treat an unreadable folder as empty
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(folder)) from error
        for path in paths:
            if path.suffix == ".json" and _NAME.match(path.stem):
                yield cls(folder, path.stem)

    def lock(self) -> None:
        """Lock the service for this process; the kernel releases the lock when the process ends.

        Raises:
            InputError: another process holds the lock, or the folder cannot be written.
        """
        try:
            own_folder(self.folder)
            self._lock = os.fdopen(open_own(self._lock_path, os.O_RDWR | os.O_CREAT, READABLE), "r+b")
        except OSError as error:
            raise InputError(f"cannot be used: {error.strerror}", where=str(self.folder)) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            self._lock = None
            stop = f"kwiken down --state {shlex.quote(str(self.folder))}"
            raise InputError(
                f"service {self.service!r} is up already; stop it with: {stop}", where=str(self.folder)
            ) from None

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def claimed(self) -> bool:
        """Whether this process holds the lock, and the lock file is still in the folder."""
        if self._lock is None:
            return False
        try:
            there = self._lock_path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._lock.fileno()))

    @property
    def intact(self) -> bool:
        """Whether the lock, state and token are still in the folder."""
        try:
            return self.claimed and self.state.exists() and self.token.exists()
        except OSError:
            return False

    def restore(self, token: str) -> None:
        """Create folder, lock and token again if they were removed.

        Raises:
            InputError: the folder cannot be used, or another process has locked the service meanwhile.
            OSError: the token cannot be written.
        """
        if not self.claimed:
            self.unlock()
            self.lock()
        if not self.token.exists():
            self.write_token(token)

    def write_token(self, token: str) -> None:
        """Write the token, readable by this user only."""
        replace_own(self.token, token.encode("ascii") + b"\n")

    def read_token(self) -> str:
        """Token of the control routes.

        Raises:
            InputError: the file is missing, or is not one that a cluster of this user wrote; names it.
        """
        try:
            return read_own(self.token, MAX_TOKEN).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}", where=str(self.token)) from error

    def open_log(self) -> IO[bytes]:
        """Open the log to append to it.

        Raises:
            InputError: as in `open_own` and `own_folder`.
            OSError: the folder or the file cannot be used.
        """
        own_folder(self.folder)
        return os.fdopen(open_own(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")

    def write(self, state: ClusterState) -> None:
        """Replace the state atomically."""
        replace_own(self.state, msgspec.json.format(msgspec.json.encode(state), indent=1), READABLE)

    def read(self) -> ClusterState | None:
        """Read the state; None if there is none.

        Raises:
            InputError: the file is not a cluster's state; names the file.
        """
        try:
            return msgspec.json.decode(read_own(self.state, MAX_STATE, of_others=True), type=ClusterState)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(error.strerror), where=str(self.state)) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f"is not a cluster's state: {error}; end the processes of {self.service} that still run, "
                "then remove this file",
                where=str(self.state),
            ) from error

    def remove(self) -> None:
        """Remove state, token and plan; lock and log stay."""
        for path in (self.state, self.token, self.plan):
            path.unlink(missing_ok=True)

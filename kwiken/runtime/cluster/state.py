"""What a running cluster notes of itself: `STATE/SERVICE.json`, `.token`, `.plan`, `.lock`, `.log`."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from kwiken.errors import InputError
from kwiken.runtime.cluster.process_id import Identity
from kwiken.runtime.files import read_file

VERSION: Final = 1
MAX_STATE: Final = 64 << 20
STOP_S: Final = 30.0
KILL_S: Final = 5.0
PRIVATE: Final = 0o600
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")


class ProcessState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server process of the cluster.

    Attributes:
        identity: pid and start.
        url: where it listens.
        restarts: how often it was replaced.
        stage: the stage of a replica; None for the gateway.
        replica: the replica's name.
    """

    identity: Identity
    url: str
    restarts: int
    stage: str | None = None
    replica: str | None = None


class ClusterState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that `down` and `status` need to know.

    Attributes:
        version: of this form.
        service: its name.
        target: what was started, `MODULE:SERVICE`.
        supervisor: the process that holds the cluster.
        ready: whether the gateway has been ready.
        token_file: path of the token for the control routes.
        gateway: its process; None before it is there.
        replicas: theirs.
    """

    version: int
    service: str
    target: str
    supervisor: Identity
    ready: bool
    token_file: str
    gateway: ProcessState | None
    replicas: list[ProcessState]

    def __post_init__(self) -> None:
        """Refuse other versions."""
        if self.version != VERSION:
            raise ValueError(f"version must be {VERSION}, not {self.version}")

    @property
    def children(self) -> list[ProcessState]:
        """The gateway, where there is one, and the replicas."""
        return [*([self.gateway] if self.gateway is not None else []), *self.replicas]


class StateFiles:
    """The files of one service's cluster.

    Args:
        folder: where they are; made when something is written.
        service: name of the service.

    Raises:
        InputError: for what cannot be a service's name.
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
        self._lock: IO[str] | None = None

    @classmethod
    def all(cls, folder: Path) -> Iterator[StateFiles]:
        """The clusters that are noted in a folder; none where there is no such folder.

        Raises:
            InputError: when it cannot be read: what runs must not pass for nothing.
        """
        try:
            paths = sorted(folder.iterdir())  # a glob takes a folder that may not be read for an empty one
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(folder)) from error
        for path in paths:
            if path.suffix == ".json" and _NAME.match(path.stem):
                yield cls(folder, path.stem)

    def lock(self) -> None:
        """Claim the service's cluster for this process; the kernel gives it back at the process' end.

        Raises:
            InputError: when another process has it, or the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._lock_path.open("a+", encoding="ascii")
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
        """Give the claim back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def claimed(self) -> bool:
        """Whether this process has the claim, and the lock still stands in the folder for others to see."""
        if self._lock is None:
            return False
        try:
            there = self._lock_path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._lock.fileno()))

    @property
    def intact(self) -> bool:
        """Whether all that is noted is still there to be seen."""
        try:
            return self.claimed and self.state.exists() and self.token.exists()
        except OSError:
            return False

    def restore(self, token: str) -> None:
        """Make folder, claim and token again where somebody has removed them.

        Raises:
            InputError: the folder cannot be used, or another process has claimed the service meanwhile.
            OSError: the token cannot be written.
        """
        if not self.claimed:
            self.unlock()
            self.lock()
        if not self.token.exists():
            self.write_token(token)

    def write_token(self, token: str) -> None:
        """Write the token so that only this user can read it."""
        self.token.unlink(missing_ok=True)
        handle = os.open(self.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(token + "\n")
        except OSError:
            self.token.unlink(missing_ok=True)
            raise

    def write(self, state: ClusterState) -> None:
        """Replace the state as a whole."""
        fresh = self.state.with_suffix(".json.new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=1))
        fresh.replace(self.state)

    def read(self) -> ClusterState | None:
        """The state; None where there is none.

        Raises:
            InputError: names the file when it is not a cluster's state.
        """
        try:
            return msgspec.json.decode(read_file(self.state, MAX_STATE), type=ClusterState)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(str(error.strerror), where=str(self.state)) from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f"is not a cluster's state: {error}; end by hand what still runs of {self.service}, "
                "then remove this file",
                where=str(self.state),
            ) from error

    def remove(self) -> None:
        """Remove state, token and plan; the lock and the log stay."""
        for path in (self.state, self.token, self.plan):
            path.unlink(missing_ok=True)


def stop_cluster(files: StateFiles, *, stop_s: float = STOP_S) -> bool:
    """Stop a cluster from outside: its supervisor in good order, and whatever is left by force.

    Only processes whose start time is as noted are signalled.

    Args:
        files: of the cluster.
        stop_s: how long its supervisor may take.

    Returns:
        Whether anything ran.

    Raises:
        InputError: when the state cannot be read.
    """
    state = files.read()
    if state is None:
        return False
    ran = state.supervisor.signal(signal.SIGTERM)
    if ran and not state.supervisor.wait(stop_s):
        state.supervisor.signal(signal.SIGKILL)
        state.supervisor.wait(KILL_S)
    left = [each.identity for each in state.children]
    gone = [identity for identity in left if identity.signal(signal.SIGKILL)]
    for identity in gone:
        identity.wait(KILL_S)
    files.remove()
    return ran or bool(gone)

"""State folder of a running cluster: locked, kept up to date, and emptied at the end."""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import tempfile
from pathlib import Path

from kwiken.base.errors import InputError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.cluster.state.documents import ClusterState
from kwiken.runtime.cluster.state.files import StateFiles

LOG = logging.getLogger("kwiken.cluster")


class StateFolder:
    """State files that belong to one running cluster, and the token in them.

    Args:
        folder: folder of the files; None for a temporary one.

    Attributes:
        token: token of the gateway's control routes, made for this cluster.
        unsaved: whether the last state could not be written, so that an older one is in the folder.

    Raises:
        InputError: the service is up already, or the folder cannot be written.
    """

    def __init__(self, folder: Path | None, service: str) -> None:
        self._temporary = folder is None
        self.files = StateFiles(folder or Path(tempfile.mkdtemp(prefix="kwiken-")), service)
        self.token = secrets.token_urlsafe(32)
        self.unsaved = False
        self.files.lock()

    def begin(self, state: ClusterState) -> None:
        """Write the first state in place of what a killed supervisor left.

        Args:
            state: state of the cluster, without any process.

        Raises:
            OSError: the files cannot be written.
        """
        self.files.remove()
        self.files.write_token(self.token)
        self.files.write(state)

    def save(self, state: ClusterState) -> None:
        """Write the state if possible: a full disk or a removed folder must not end the service."""
        try:
            self.files.restore(self.token)
            self.files.write(state)
        except (OSError, InputError) as error:
            if not self.unsaved:
                LOG.warning(
                    "the state cannot be saved, so `down` and `status` do not see it: %s",
                    error,
                    extra=about(Event.STATE_NOT_SAVED),
                )
            self.unsaved = True
        else:
            self.unsaved = False

    @property
    def has_plan(self) -> bool:
        """Whether the plan in force is saved, so that a new gateway has found it by itself."""
        return self.files.plan.is_file()

    def close(self) -> None:
        """Remove the state and release the lock."""
        with contextlib.suppress(OSError):
            if self.files.claimed:  # else the folder may belong to another cluster by now
                self.files.remove()
        self.files.unlock()
        if self._temporary:
            shutil.rmtree(self.files.folder, ignore_errors=True)

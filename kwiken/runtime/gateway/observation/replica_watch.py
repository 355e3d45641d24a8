"""Watch over replicas: logs which ones a gateway leaves out, takes back, and has lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.decisions.choice.replica_state import ReplicaState

LOG = logging.getLogger("kwiken.gateway")
POLL_S: Final = 0.5  # between two checks; a replica that is left out for a shorter time may go unlogged


class Change(NamedTuple):
    """One change to log."""

    event: Event
    message: str


class ReplicaChanges:
    """Finds what changed between two looks at the replicas. A state machine."""

    def __init__(self) -> None:
        self._out: dict[str, dict[str, bool]] = {}  # by stage and replica, whether it is left out

    def look(self, stages: Mapping[str, Sequence[ReplicaState]]) -> list[Change]:
        """Changes since the last look; the first look finds only what is wrong already."""
        changes: list[Change] = []
        for stage, replicas in stages.items():
            before = self._out.get(stage, {})
            now = {each.replica.id: each.ejected for each in replicas}
            for each in replicas:
                at = f"stage {stage!r}: replica {each.replica.id}"
                was_out = before.get(each.replica.id, False)
                if each.ejected and not was_out:
                    reason = f": {each.trouble}" if each.trouble else ""
                    changes.append(Change(Event.REPLICA_OUT, f"{at} is left out{reason}"))
                elif was_out and not each.ejected:
                    changes.append(Change(Event.REPLICA_BACK, f"{at} serves again"))
            changes += [
                Change(Event.REPLICA_GONE, f"stage {stage!r}: replica {name} is not listed any more")
                for name in before
                if name and name not in now
            ]
            serving = not all(now.values()) if now else False
            served = not all(before.values()) if before else False
            if before and served and not serving:
                changes.append(Change(Event.STAGE_OUT, f"stage {stage!r}: none of its replicas answers"))
            elif before and serving and not served:
                changes.append(Change(Event.STAGE_BACK, f"stage {stage!r}: a replica answers again"))
            # A stage without replicas counts as out, by one without a name, so that its return is logged.
            self._out[stage] = now or ({"": True} if before else {})
        return changes


async def watch_replicas(stages: Callable[[], Mapping[str, Sequence[ReplicaState]]]) -> None:
    """Log changes of the replicas until cancelled.

    Args:
        stages: replicas of each stage at present.
    """
    changes = ReplicaChanges()
    while True:
        for change in changes.look(stages()):
            level = logging.ERROR if change.event is Event.STAGE_OUT else logging.WARNING
            LOG.log(level, "%s", change.message, extra=about(change.event))
        await asyncio.sleep(POLL_S)

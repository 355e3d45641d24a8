"""Measurements by arm: assigns requests and traces to arms, and derives latencies and spend. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from kwiken.apps.demo.setup.blocks import ARMS, Schedule
from kwiken.apps.demo.setup.load import Record
from kwiken.apps.demo.trial.spend import SpentCall, catch_up_spend, total_spend, worst_window
from kwiken.apps.report.model.result import Spent
from kwiken.apps.report.model.rows import LoadRow
from kwiken.apps.report.model.statistics import Floats
from kwiken.otel.write.records import AttemptRecord, RequestRecord

DROPPED = "dropped"


@dataclass
class ArmData:
    """Measurements of one arm.

    Attributes:
        rows: requests of the arm, including those that were never sent.
        seconds: total length of its blocks without settling time.
        records: traces of its requests by the gateway.
    """

    rows: list[LoadRow] = field(default_factory=list)
    seconds: float = 0.0
    records: list[RequestRecord] = field(default_factory=list)

    @property
    def sent(self) -> list[LoadRow]:
        """The requests that were sent."""
        return [row for row in self.rows if row.latency_ms is not None]

    @property
    def failed(self) -> int:
        """Number of requests that were sent and not answered."""
        return sum(not row.ok for row in self.sent)

    @property
    def dropped(self) -> int:
        """Number of requests that were never sent."""
        return len(self.rows) - len(self.sent)

    @property
    def gateway_ms(self) -> Floats:
        """Latencies of the traced requests at the gateway in milliseconds, (n,)."""
        return np.array([(record.end_ns - record.start_ns) / 1e6 for record in self.records])

    def undisturbed_ms(self, pauses: Mapping[str, Sequence[tuple[float, float]]]) -> Floats:
        """Latencies of the traced requests that met no pause in milliseconds, (n,), at the gateway.

        Args:
            pauses: start and end of each pause by replica, in order, in seconds since 1970.
        """
        free = (record for record in self.records if not any(_met(call, pauses) for call in _calls(record)))
        return np.array([(record.end_ns - record.start_ns) / 1e6 for record in free])

    def series(self) -> tuple[Floats, Floats]:
        """Due times in seconds and latencies in milliseconds, both (n,); no answer counts as the time-out."""
        due = np.array([row.intended_s for row in self.rows], dtype=np.float64)
        took = [row.counted_ms for row in self.rows]
        return due, np.array(took, dtype=np.float64)


def _calls(record: RequestRecord) -> Iterator[AttemptRecord]:
    for stage in record.stages:
        yield from stage.attempts


def _met(call: AttemptRecord, pauses: Mapping[str, Sequence[tuple[float, float]]]) -> bool:
    """Tell whether the replica of a call was paused while the call ran."""
    own = pauses.get(call.replica, ())
    next_one = bisect_right(own, call.end_ns / 1e9, key=itemgetter(0))  # the first that began after its end
    return next_one > 0 and own[next_one - 1][1] > call.start_ns / 1e9


def assign(records: Iterable[Record], schedule: Schedule) -> tuple[dict[str, ArmData], int]:
    """Assign each request to the arm in whose block it was due.

    Returns:
        The arms, and the number of requests left out because the service settled after a switch.
    """
    arms = {arm: ArmData(seconds=schedule.seconds.get(arm, 0.0)) for arm in ARMS}
    settling = 0
    for record in records:
        block = schedule.find(record.intended_s)
        if block is None:
            settling += schedule.settling(record.intended_s)
            continue
        row = row_of(record, arm=block.arm, block=schedule.blocks.index(block))
        arms[block.arm].rows.append(row)
    return arms, settling


def row_of(record: Record, *, arm: str | None = None, block: int | None = None) -> LoadRow:
    """Row of a request that the load generator recorded.

    Args:
        arm: name of the arm; None outside of a demo.
        block: number of the block; None outside of a demo.
    """
    return LoadRow(
        arm=arm,
        block=block,
        intended_s=record.intended_s,
        latency_ms=None if record.error == DROPPED else record.latency_ms,
        status=record.status,
        trace_id=record.trace_id,
    )


def attach(arms: Mapping[str, ArmData], requests: Iterable[RequestRecord]) -> None:
    """Add the gateway's traces of its requests to each arm.

    Args:
        arms: arms, which are changed in place.
        requests: traces of all requests.
    """
    owner = {int(row.trace_id, 16): data for data in arms.values() for row in data.rows if row.trace_id}
    for request in requests:
        if request.trace_id in owner:
            owner[request.trace_id].records.append(request)


def under_another_plan(data: ArmData, digest: str | None) -> int:
    """Number of an arm's requests that ran under another plan than the arm's; 0 in a sound trial."""
    return sum(record.plan != digest for record in data.records)


def calls_of(data: ArmData, schedule: Schedule, unit_cost: Mapping[str, float]) -> list[SpentCall]:
    """Calls of an arm's requests, on the arm's own clock.

    Args:
        unit_cost: cost of one call by stage.
    """
    blocks = {int(row.trace_id, 16): schedule.blocks[row.block or 0] for row in data.rows if row.trace_id}
    return [
        SpentCall(
            at_s=schedule.own_time(blocks[record.trace_id], attempt.start_ns / 1e9),
            stage=stage.name,
            kind=str(attempt.kind),
            cost=unit_cost.get(stage.name, 0.0),
            late=attempt.catch_up,
        )
        for record in data.records
        for stage in record.stages
        for attempt in stage.attempts
    ]


def spent_of(calls: Sequence[SpentCall], seconds: float) -> Spent:
    """Spend of an arm.

    Args:
        seconds: length of the arm on its own clock.
    """
    kinds = ["late" if call.late and call.kind == "reissue" else call.kind for call in calls]
    return Spent(
        reissue=total_spend(calls),
        reissue_worst_10s=worst_window(calls, seconds),
        catch_up=catch_up_spend(calls),
        copies=kinds.count("reissue"),
        late_copies=kinds.count("late"),
        retries=kinds.count("retry"),
        calls=kinds.count("primary"),
    )

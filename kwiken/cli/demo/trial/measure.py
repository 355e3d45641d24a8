"""From what was noted to what is reported: requests to arms, latencies, spend. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kwiken.cli.demo.setup import ARMS, Record, Schedule
from kwiken.cli.demo.trial.spend import Call, catch_up_spend, total_spend, worst_window
from kwiken.cli.report.model import Floats, LoadRow, Spent
from kwiken.otel.write import RequestRecord

DROPPED = "dropped"


@dataclass
class ArmData:
    """What was measured of one arm.

    Attributes:
        rows: its requests, those never sent included.
        seconds: length of its blocks, settling left out.
        records: what the gateway noted of its requests.
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
        """How many were sent and not answered."""
        return sum(not row.ok for row in self.sent)

    @property
    def dropped(self) -> int:
        """How many were never sent."""
        return len(self.rows) - len(self.sent)

    def series(self) -> tuple[Floats, Floats]:
        """(When each was due in seconds, latency in milliseconds); no answer counts as the time-out."""
        due = np.array([row.intended_s for row in self.rows], dtype=np.float64)
        took = [row.counted_ms for row in self.rows]
        return due, np.array(took, dtype=np.float64)


def assign(records: Iterable[Record], schedule: Schedule) -> tuple[dict[str, ArmData], int]:
    """Give each request to the arm in whose block it was due.

    Returns:
        The arms, and how many requests were left out as the service settled after a switch.
    """
    arms = {arm: ArmData(seconds=schedule.seconds.get(arm, 0.0)) for arm in ARMS}
    settling = 0
    for record in records:
        block = schedule.find(record.intended_s)
        if block is None:
            settling += schedule.settling(record.intended_s)
            continue
        row = LoadRow(
            arm=block.arm,
            block=schedule.blocks.index(block),
            intended_s=record.intended_s,
            latency_ms=None if record.error == DROPPED else record.latency_ms,
            status=record.status,
            trace_id=record.trace_id,
        )
        arms[block.arm].rows.append(row)
    return arms, settling


def attach(arms: Mapping[str, ArmData], requests: Iterable[RequestRecord]) -> None:
    """Give each arm what the gateway noted of its requests."""
    owner = {int(row.trace_id, 16): data for data in arms.values() for row in data.rows if row.trace_id}
    for request in requests:
        if request.trace_id in owner:
            owner[request.trace_id].records.append(request)


def under_another_plan(data: ArmData, digest: str | None) -> int:
    """How many of an arm's requests ran under another plan than the arm's; should be 0."""
    return sum(record.plan != digest for record in data.records)


def calls_of(data: ArmData, schedule: Schedule, unit_cost: Mapping[str, float]) -> list[Call]:
    """Every call of an arm's requests, on the arm's own clock.

    Args:
        data: of the arm.
        schedule: of the trial.
        unit_cost: cost of one call of each stage.
    """
    blocks = {int(row.trace_id, 16): schedule.blocks[row.block or 0] for row in data.rows if row.trace_id}
    return [
        Call(
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


def spent_of(calls: Sequence[Call], seconds: float) -> Spent:
    """An arm's spend."""
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

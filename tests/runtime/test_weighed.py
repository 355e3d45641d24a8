"""What a request costs the gateway's thread."""

from __future__ import annotations

import time

from otel import RequestRecord
from runtime._spans import Weighed


class Kept:
    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def request_finished(self, record: RequestRecord) -> None:
        self.records.append(record)


def finished() -> RequestRecord:
    return RequestRecord(trace_id=1, span_id=1, parent_span_id=None, service="shop", start_ns=0)


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_request_bears_what_the_thread_burnt_since_the_last_one_ended() -> None:
    kept = Kept()
    weighed = Weighed(kept)
    burn(0.02)  # start-up, which is nobody's
    before = time.thread_time()
    weighed.request_finished(finished())
    for work_s in (0.002, 0.008, 0.004):
        burn(work_s)
        weighed.request_finished(finished())
    burnt_ms = (time.thread_time() - before) * 1e3
    first, *others = [record.busy_ms for record in kept.records]
    assert first is None
    borne = [busy for busy in others if busy is not None]
    assert len(borne) == 3
    assert all(busy >= least for busy, least in zip(borne, (2.0, 8.0, 4.0), strict=True))
    assert sum(borne) <= burnt_ms  # what is burnt is borne once


def test_waiting_costs_nothing() -> None:
    kept = Kept()
    weighed = Weighed(kept)
    weighed.request_finished(finished())
    before = time.thread_time()
    time.sleep(0.05)
    weighed.request_finished(finished())
    busy_ms = kept.records[1].busy_ms
    assert busy_ms is not None
    assert busy_ms <= (time.thread_time() - before) * 1e3 + 0.1

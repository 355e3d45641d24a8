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


def test_each_request_bears_an_even_share_of_what_the_thread_burnt() -> None:
    kept = Kept()
    weighed = Weighed(kept)
    burn(0.02)  # start-up, which is nobody's
    weighed.request_finished(finished())
    before = time.thread_time()
    for _ in range(4):
        burn(0.005)
        weighed.request_finished(finished())
    burnt_ms = (time.thread_time() - before) * 1e3
    first, *others = [record.busy_ms for record in kept.records]
    assert first is None
    assert all(busy is not None and 5.0 <= busy <= burnt_ms for busy in others)
    assert others[-1] is not None
    assert others[-1] <= burnt_ms / 4 + 0.1


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

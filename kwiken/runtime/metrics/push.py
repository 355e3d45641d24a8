"""Push of a process's metrics to a collector at intervals, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kwiken.base.errors import InputError
from kwiken.base.extras import needs
from kwiken.otel.metrics.model import Family
from kwiken.runtime.base.abandoned import ended_within, in_thread
from kwiken.runtime.metrics.reading import read_in_turns

if TYPE_CHECKING:
    from kwiken.otel.metrics.otlp import MetricPush

THREAD: Final = "kwiken-metrics"
LAST_S: Final = 1.0  # longest time for the push at the end; a collector that hangs must not delay it
CLOSE_S: Final = 0.5  # longest time for the end of retries
INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
INTERVAL_MS: Final = 60_000.0
MIN_INTERVAL_MS: Final = 100.0
MAX_INTERVAL_MS: Final = 3_600_000.0


@contextlib.asynccontextmanager
async def pushed(
    endpoint: str | None, attributes: Callable[[], Mapping[str, str]], collect: Callable[[], Iterable[Family]]
) -> AsyncIterator[None]:
    """Push metrics while the body runs, and once at its end.

    Args:
        endpoint: `http://HOST:PORT` of a collector, or the full URL of its metrics path; None to push
            nothing.
        attributes: function that makes the attributes of the resource; called if metrics are pushed.
        collect: function that reads the metrics; called in the event loop.

    Raises:
        InputError: the endpoint is no HTTP URL, or the interval in the environment is not usable.
        MissingExtraError: the OpenTelemetry SDK is not installed.
    """
    if endpoint is None:
        yield
        return
    with needs("a collector of metrics", "otel"):
        from kwiken.otel.metrics.otlp import MetricPush
    push = MetricPush(endpoint, attributes(), started_ns=time.time_ns())
    interval_s = interval_of(os.environ) / 1000
    pushing = asyncio.get_running_loop().create_task(_push_on(push, collect, interval_s))
    try:
        yield
    finally:
        pushing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pushing
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await _push(push, collect)
        ended_within(push.close, CLOSE_S, name=THREAD)


async def _push_on(push: MetricPush, collect: Callable[[], Iterable[Family]], interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        await _push(push, collect)


async def _push(push: MetricPush, collect: Callable[[], Iterable[Family]]) -> None:
    """Push the metrics of this moment; what fails is logged by the exporter."""
    work = functools.partial(push.push, await read_in_turns(collect()), time.time_ns())
    await in_thread(work, name=THREAD)


def interval_of(environment: Mapping[str, str]) -> float:
    """Interval between two pushes, milliseconds, as the SDK's own readers take it from the environment.

    Raises:
        InputError: the variable is no number of milliseconds in range.
    """
    text = environment.get(INTERVAL, "").strip()
    if not text:
        return INTERVAL_MS
    try:
        interval_ms = float(text)
    except ValueError:
        interval_ms = -1.0
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise InputError(
            f"must be from {MIN_INTERVAL_MS:g} to {MAX_INTERVAL_MS:g} milliseconds, not {text[:40]!r}",
            where=INTERVAL,
        )
    return interval_ms

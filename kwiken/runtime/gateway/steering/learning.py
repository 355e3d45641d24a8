"""Learning: recent traces of a service into a proposal of a plan. Slow: run in a thread."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.otel.fit.fit import fit_profile
from kwiken.tail.autopilot.proposal import PlanProposal, propose

WINDOW_S: Final = 900.0  # of the requests that are learned from and judged on
MAX_SPANS: Final = 2_000_000  # of the window
MAX_FILES: Final = 1000  # in the folder of traces
MAX_AHEAD_S: Final = 60.0  # what is later was written before the clock was set back


def learn(
    traces: str, service: str, in_force: Plan | None, *, budget: float, now_s: float, rate_per_s: float
) -> PlanProposal:
    """Propose a plan from the requests of the last quarter of an hour.

    Args:
        traces: folder or file of traces, or an address as `kwiken fit` takes it.
        budget: reissue budget, a share above 0 and at most 1.
        now_s: present time, seconds since 1970.
        rate_per_s: requests a second of the service, of which the traces hold a part; 0 if not known.

    Raises:
        InputError: the traces cannot be read, hold too few requests, or no plan can be made of them.
        OSError: a file cannot be read.
    """
    since_s = now_s - WINDOW_S
    until_s = now_s + MAX_AHEAD_S
    profile = fit_profile(
        _recent(traces, since_s, until_s),
        service=service,
        since_s=since_s,
        until_s=until_s,
        max_spans=MAX_SPANS,
    )
    span_s = float(profile.started_s.max() - profile.started_s.min())
    all_requests = rate_per_s * span_s
    sampled = min(1.0, profile.requests / all_requests) if all_requests > 0 else 1.0
    return propose(
        profile,
        in_force,
        budget=budget,
        created=datetime.fromtimestamp(now_s, UTC).isoformat(timespec="seconds"),
        sampled=sampled,
    )


def _recent(traces: str, since_s: float, until_s: float) -> list[str | Path]:
    """Files that were written to in the window, or the text itself where it is no folder.

    Raises:
        InputError: the folder holds nothing that recent.
        OSError: the folder cannot be read.
    """
    folder = Path(traces)
    if "://" in traces or folder.is_file():
        return [traces]
    found: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        changed_s = path.stat().st_mtime
        if path.is_file() and since_s <= changed_s < until_s:
            found.append((changed_s, path))
    if not found:
        raise InputError("holds no trace of the last quarter of an hour", where=traces)
    return [path for _, path in sorted(found, reverse=True)[:MAX_FILES]]

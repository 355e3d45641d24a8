"""Lines of requests: kinds that wait apart, and how many requests run at once. Pure."""

from __future__ import annotations

from kwiken.runtime.decisions.lines.request_lines import (
    SECONDS_PER_LEVEL as SECONDS_PER_LEVEL,
    KindLine as KindLine,
    RequestLines as RequestLines,
    Ticket as Ticket,
)

"""Lines of waiting as queues of Kueue."""

from __future__ import annotations

from kwiken.export.lines.kueue import kueue_queues as kueue_queues

"""Recorded history of workloads, for users who have none of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

RECORDED_HISTORY: Final = Path(__file__).with_name("history.toml")

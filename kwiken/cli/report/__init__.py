"""Report: one self-contained page of what was learned, planned and got."""

from __future__ import annotations

from kwiken.cli.report.build import build_page, made_line
from kwiken.cli.report.collect import Wishes, gather
from kwiken.cli.report.inputs import find

__all__ = ["Wishes", "build_page", "find", "gather", "made_line"]

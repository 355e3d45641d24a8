"""Demonstration of placement: three services and best-effort work on nodes of unequal speed."""

from __future__ import annotations

from kwiken.cli.demo_place.judgement import verdict
from kwiken.cli.demo_place.run import Arm, run_demo

__all__ = ["Arm", "run_demo", "verdict"]

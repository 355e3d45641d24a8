"""Demonstration of placement: three services and best-effort work on nodes of unequal speed."""

from __future__ import annotations

from kwiken.apps.demo_place.judgement import verdict as verdict
from kwiken.apps.demo_place.outcome import PlacedArm as PlacedArm
from kwiken.apps.demo_place.run import run_demo as run_demo

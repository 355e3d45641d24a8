"""Batch jobs in tests: room on nodes without services, and a supervisor that can be killed."""

from __future__ import annotations

from tests.support.allocation.jobs.fixed_room import FixedRoom as FixedRoom, order as order

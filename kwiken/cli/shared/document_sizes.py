"""Bounds on documents: files of queues, nodes, workloads, their profiles, and placements."""

from __future__ import annotations

from typing import Final

from kwiken.base.machine.files import MIB

MAX_QUEUES_FILE: Final = 4 * MIB
MAX_NODES_FILE: Final = 64 * MIB
MAX_WORKLOADS_FILE: Final = 16 * MIB
MAX_PROFILES: Final = 64 * MIB
MAX_PLACEMENT: Final = 256 * MIB

"""Node classes on one machine: processes run as if on a node of a given speed and number of cores."""

from __future__ import annotations

from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import Method, NodeLimits, available_method

__all__ = ["Limit", "Method", "NodeLimits", "available_method"]

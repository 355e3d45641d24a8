"""Node classes on one machine: processes run as if on a node of a given speed and number of cores."""

from __future__ import annotations

from kwiken.runtime.node_classes.adopted import AdoptedProcess as AdoptedProcess
from kwiken.runtime.node_classes.limit import Limit as Limit
from kwiken.runtime.node_classes.node_limits import (
    LimitMethod as LimitMethod,
    NodeLimits as NodeLimits,
    available_method as available_method,
)

"""Causes of latency: the map of the last responders (Figure 5.2), and what the source alone could measure."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken.causes.heat import heat_part as heat_part
from kwiken.lab.reproduction.kwiken.causes.not_reproduced import NOT_REPRODUCED as NOT_REPRODUCED

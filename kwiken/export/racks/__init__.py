"""Plans of racks as settings of engines of batch jobs."""

from __future__ import annotations

from kwiken.export.racks.settings import RACK_PROGRAMS as RACK_PROGRAMS, untold as untold

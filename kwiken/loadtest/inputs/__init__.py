"""Inputs of a load run: settings, arrival schedule and request bodies, read and checked before it starts."""

from __future__ import annotations

from kwiken.loadtest.inputs.arrivals import Arrivals as Arrivals, check_rate as check_rate
from kwiken.loadtest.inputs.headers import Headers as Headers
from kwiken.loadtest.inputs.queries import Queries as Queries
from kwiken.loadtest.inputs.settings import (
    LoadSettings as LoadSettings,
    LoadTarget as LoadTarget,
    Prepared as Prepared,
    prepare as prepare,
)

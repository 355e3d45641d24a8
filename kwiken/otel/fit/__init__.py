"""Profile fitting from traces of services on this runtime or of any other service."""

from __future__ import annotations

from kwiken.otel.fit.fit import (
    SLOW_CHOSEN as SLOW_CHOSEN,
    Fits as Fits,
    Kind as Kind,
    fit_forest as fit_forest,
    fit_profile as fit_profile,
    fit_profiles as fit_profiles,
    list_kinds as list_kinds,
)

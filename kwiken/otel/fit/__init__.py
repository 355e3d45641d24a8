"""Profile fitting from traces of services on this runtime or of any other service."""

from __future__ import annotations

from kwiken.otel.fit.fit import Fits, Kind, fit_forest, fit_profile, fit_profiles, list_kinds

__all__ = ["Fits", "Kind", "fit_forest", "fit_profile", "fit_profiles", "list_kinds"]

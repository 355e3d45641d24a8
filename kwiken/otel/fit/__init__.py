"""Profile fitting from traces of services on this runtime or of any other service."""

from __future__ import annotations

from kwiken.otel.fit.fit import Fits, fit_profile, fit_profiles

__all__ = ["Fits", "fit_profile", "fit_profiles"]

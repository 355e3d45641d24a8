"""Fit: from traces to a profile, for services on this runtime and for any other."""

from __future__ import annotations

from kwiken.otel.fit.fit import Fits, fit_profile, fit_profiles

__all__ = ["Fits", "fit_profile", "fit_profiles"]

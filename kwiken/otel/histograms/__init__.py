"""Profile fitting from the histograms of a Prometheus, for services that are too big to trace."""

from __future__ import annotations

from kwiken.otel.histograms.fit import HistogramFit, fit_histograms

__all__ = ["HistogramFit", "fit_histograms"]

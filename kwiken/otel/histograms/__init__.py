"""Profile fitting from the histograms of a Prometheus, for services that are too big to trace."""

from __future__ import annotations

from kwiken.otel.histograms.fit import HistogramFit as HistogramFit, fit_histograms as fit_histograms

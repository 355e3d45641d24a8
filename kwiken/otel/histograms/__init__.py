"""Profile fitting from the histograms of a Prometheus, for services that are too big to trace."""

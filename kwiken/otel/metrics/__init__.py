"""Metrics: what there is to measure, as text for Prometheus and as data points for OTLP."""

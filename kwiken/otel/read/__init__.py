"""Trace reader: OTLP, Jaeger and Zipkin JSON into columns of spans."""

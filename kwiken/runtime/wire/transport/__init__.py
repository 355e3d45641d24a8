"""Transports: calls to replicas over HTTP or within one process, and the wire format."""

"""Observation by a gateway: event loop, own figures, and replicas."""

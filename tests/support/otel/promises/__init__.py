"""Traces of services whose slowness has a known cause, and what copies would truly cut of their p99."""

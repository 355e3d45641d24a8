"""Calls of requests as matrices: order, repeated calls, and stages."""

"""Demonstration of placement: three services and best-effort work on nodes of unequal speed."""

"""Pods of a service: processes of this machine, their names, and a real API server that keeps them."""

"""The body: runs a service."""

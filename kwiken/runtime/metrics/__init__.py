"""Metrics of server processes: HTTP requests, the process itself, the page and the push."""

"""Locustfiles that run as they stand against the search service, and as a start for one's own.

Each is given to Locust by its path: `locust -f loadtest/locustfiles/open_loop.py`.
"""

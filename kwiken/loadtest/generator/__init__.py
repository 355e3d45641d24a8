"""Generator of open-loop load over gevent: when requests are sent, and the HTTP client that sends them.

Importing this package loads gevent, and leaves the standard library as it is.
"""

"""Lines of requests: kinds that wait apart, and how many requests run at once. Pure."""

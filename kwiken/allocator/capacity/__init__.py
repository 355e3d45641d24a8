"""Capacity: replicas, nodes and reissues of a service, sized together for a p99 at the least cost."""

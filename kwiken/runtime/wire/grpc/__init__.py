"""gRPC: calls to replicas, and what the servers of stages and gateways share."""

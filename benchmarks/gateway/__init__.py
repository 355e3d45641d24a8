"""Benchmarks of the gateway, over HTTP and gRPC, beside the same by hand and beside Ray Serve."""

"""Support for tests of the runtime: clusters, replicas, processes, waiting."""

"""Support for tests of the load generator."""

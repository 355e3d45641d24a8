"""Support for tests of traffic: drawn flows."""

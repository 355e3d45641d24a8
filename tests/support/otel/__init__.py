"""Support for tests of traces and metrics: collectors, exports, spans."""

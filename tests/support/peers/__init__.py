"""Support for tests against other programs: servers and clients that misbehave, Envoy, foreign services."""

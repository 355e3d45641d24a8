"""Calls of foreign services: stages that other programs serve, over HTTP or gRPC."""

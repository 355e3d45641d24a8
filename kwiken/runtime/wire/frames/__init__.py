"""Frames between gateway and replicas: many calls over one connection, as typed MessagePack."""

"""Pods of Kubernetes as replicas, and its nodes: what an upkeep acts on beyond one machine."""

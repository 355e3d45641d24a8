"""Placements as settings of Compose and Kubernetes."""

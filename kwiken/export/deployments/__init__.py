"""Deployments of a user's own service: its image, a Compose file, a Kustomize base for Kubernetes."""

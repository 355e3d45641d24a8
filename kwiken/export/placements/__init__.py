"""Placements as settings of Compose and Kubernetes."""

from __future__ import annotations

from kwiken.export.placements.manifests import MANIFESTS as MANIFESTS
from kwiken.export.placements.repacked import kubernetes_commands as kubernetes_commands

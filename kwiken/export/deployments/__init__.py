"""Deployments of a user's own service: its image, a Compose file, a Kustomize base for Kubernetes."""

from __future__ import annotations

from kwiken.export.deployments.compose import compose_file as compose_file
from kwiken.export.deployments.deployment import (
    Build as Build,
    Deployment as Deployment,
    replicas_of as replicas_of,
)
from kwiken.export.deployments.image import (
    NEVER_SENT as NEVER_SENT,
    ImageContent as ImageContent,
    dockerfile as dockerfile,
    dockerignore as dockerignore,
)
from kwiken.export.deployments.kubernetes import kubernetes_files as kubernetes_files
from kwiken.export.deployments.upkeep import UPKEEP_FILES as UPKEEP_FILES

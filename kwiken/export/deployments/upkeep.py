"""Upkeep of a service in Kubernetes: the process, and the few rights needed. Pure."""

from __future__ import annotations

from typing import Any, Final

from kwiken.export.deployments.certificates import (
    CERTIFICATE,
    FOLDER as TLS_FOLDER,
    KEY,
    secret_of,
)
from kwiken.export.deployments.deployment import GATEWAY_PORT, Deployment

FOLDER: Final = "/etc/kwiken/upkeep"
UPKEEP_FILES: Final = ("nodes.toml", "workloads.toml", "profiles.json")
RESOURCES: Final = {"cpu": "100m", "memory": "512Mi"}


def upkeep_objects(deployment: Deployment) -> list[dict[str, Any]]:
    """Account, rights and Deployment of an upkeep.

    It may read the pods of its namespace, set the scale of the stages' Deployments, and let pods onto nodes,
    mark and resize them. It cannot start, change or delete anything else. Of the cluster it sees nodes
    and pods.
    """
    name = f"{deployment.name}-upkeep"
    labels = {"app.kubernetes.io/name": deployment.name, "app.kubernetes.io/component": "upkeep"}
    managed = [each for each in deployment.stages if each.stage in deployment.managed]
    stages = [f"{deployment.name}-{each.name}" for each in managed]
    scales = {
        "apiGroups": ["apps"],
        "resources": ["deployments/scale"],
        "resourceNames": stages,
        "verbs": ["get", "patch"],
    }
    account = {"kind": "ServiceAccount", "name": name}
    return [
        _object("v1", "ServiceAccount", name),
        {
            **_object("rbac.authorization.k8s.io/v1", "Role", name),
            "rules": [
                scales,
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
                {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
            ],
        },
        {
            **_object("rbac.authorization.k8s.io/v1", "RoleBinding", name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [account],
        },
        {
            **_object("rbac.authorization.k8s.io/v1", "ClusterRole", name),
            "rules": [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}],
        },
        {
            **_object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            # Kustomize writes the namespace, where one is given; Kubernetes demands one here.
            "subjects": [{**account, "namespace": "default"}],
        },
        _deployment(deployment, name, labels),
    ]


def upkeep_words(deployment: Deployment) -> list[str]:
    """Words of the command of the upkeep, after `kwiken`."""
    return [
        "upkeep",
        deployment.target,
        "--kubernetes",
        "--nodes-from-cluster",
        *(
            f"--{option}={FOLDER}/{file}"
            for option, file in zip(("nodes", "workloads", "profiles"), UPKEEP_FILES, strict=True)
        ),
        f"--url=http{'s' * deployment.tls}://{deployment.name}-gateway:{GATEWAY_PORT}",
    ]


def _object(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _deployment(deployment: Deployment, name: str, labels: dict[str, str]) -> dict[str, Any]:
    token = {"name": f"{deployment.name}-token", "key": "token"}
    env: list[dict[str, Any]] = [{"name": "KWIKEN_TOKEN", "valueFrom": {"secretKeyRef": token}}]
    mounts: list[dict[str, Any]] = [{"name": "documents", "mountPath": FOLDER, "readOnly": True}]
    volumes: list[dict[str, Any]] = [{"name": "documents", "configMap": {"name": name}}]
    if deployment.tls:  # the gateways' certificate, by which the upkeep knows them
        env += [{"name": "KWIKEN_TLS_CERT", "value": CERTIFICATE}, {"name": "KWIKEN_TLS_KEY", "value": KEY}]
        mounts.append({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True})
        volumes.append({"name": "tls", "secret": {"secretName": secret_of(deployment.name, "gateway")}})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},  # two of them would fight
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": name,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 10001,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [
                        {
                            "name": "upkeep",
                            "image": deployment.image,
                            "args": upkeep_words(deployment),
                            "env": env,
                            "resources": {"requests": RESOURCES, "limits": {"memory": RESOURCES["memory"]}},
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": mounts,
                        }
                    ],
                    "volumes": volumes,
                },
            },
        },
    }

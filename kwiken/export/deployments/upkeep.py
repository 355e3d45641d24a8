"""Upkeep of a service in Kubernetes: the process, and the few rights needed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kwiken.export.deployments.certificates import (
    CERTIFICATE,
    FOLDER as TLS_FOLDER,
    KEY,
    secret_of,
)
from kwiken.export.deployments.deployment import COMPONENT, GATEWAY_PORT, NAME, Deployment, StageReplicas

FOLDER: Final = "/etc/kwiken/upkeep"
UPKEEP_FILES: Final = ("nodes.toml", "workloads.toml", "profiles.json")
DEFAULT_NAMESPACE: Final = "default"
# Kinds without a namespace: their names hold it, so that a second installation takes nothing from the first.
OF_THE_CLUSTER: Final = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
)
RIGHTS: Final = "rbac.authorization.k8s.io"
ADMISSION: Final = "admissionregistration.k8s.io"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
KEPT_FIELDS: Final = ("spec.tolerations", "spec.activeDeadlineSeconds", "spec.terminationGracePeriodSeconds")
KEPT_MARKS: Final = ("metadata.labels", "metadata.finalizers", "metadata.ownerReferences")
POD_SECURITY: Final[Mapping[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
RESOURCES: Final = {"cpu": "100m", "memory": "512Mi"}


def upkeep_objects(deployment: Deployment) -> list[dict[str, Any]]:
    """Account, rights and Deployment of an upkeep.

    It may read the pods of its namespace, set the scale of the stages' Deployments, and let pods onto nodes,
    mark and resize them. It cannot start, change or delete anything else: what rights cannot say, a policy
    does. Of the cluster it sees nodes and pods. Objects of the cluster have the namespace in their names.

    Args:
        deployment: the service, with the stages that the upkeep manages and its namespace.
    """
    name, space = f"{deployment.name}-upkeep", deployment.namespace
    assert space is not None, "rights of the cluster are of an account in a namespace"
    managed = [each for each in deployment.stages if each.stage in deployment.managed]
    scales = {
        "apiGroups": ["apps"],
        "resources": ["deployments/scale"],
        "resourceNames": [f"{deployment.name}-{each.name}" for each in managed],
        "verbs": ["get", "patch"],
    }
    pods = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
        {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    ]
    seen = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    account = {"kind": "ServiceAccount", "name": name, "namespace": space}
    return [
        _object("v1", "ServiceAccount", name),
        {**_object(f"{RIGHTS}/v1", "Role", name), "rules": [scales, *pods]},
        _bound("Role", name, account),
        {**_object(f"{RIGHTS}/v1", "ClusterRole", f"{space}-{name}"), "rules": seen},
        _bound("ClusterRole", f"{space}-{name}", account),
        *_policy(deployment, f"{space}-{name}", f"system:serviceaccount:{space}:{name}", managed),
        _deployment(deployment, name, deployment.labels("upkeep")),
    ]


def _bound(kind: str, name: str, account: dict[str, str]) -> dict[str, Any]:
    return {
        **_object(f"{RIGHTS}/v1", f"{kind}Binding", name),
        "roleRef": {"apiGroup": RIGHTS, "kind": kind, "name": name},
        "subjects": [account],
    }


def _policy(
    deployment: Deployment, name: str, user: str, managed: Sequence[StageReplicas]
) -> list[dict[str, Any]]:
    """Policy by which the account changes of its own pods the gate, node, size and a few annotations alone.

    Of a pod's specification the API server lets anybody with the right to patch change images, tolerations
    and times; those must stay. Labels, finalizers, owners and other annotations must stay too.

    Args:
        name: name of the policy and of its binding, unique in the cluster.
        user: name of the account, as the API server knows it.
    """
    components = sorted({each.name for each in managed})
    ours = f"(key.startsWith('kwiken/') || key == '{DELETION_COST}')"
    old, new = (
        "has({0}) ? {0} : {{}}".format(f"{of}.metadata.annotations") for of in ("oldObject", "object")
    )
    same = "key in variables.old && variables.new[key] == variables.old[key]"
    kept_notes = (
        f"variables.new.all(key, {ours} || ({same})) && "
        f"variables.old.all(key, {ours} || key in variables.new)"
    )
    rules = {
        "only pods of the stages with a target": " && ".join(
            (
                "has(oldObject.metadata.labels)",
                *(f"'{label}' in oldObject.metadata.labels" for label in (NAME, COMPONENT)),
                f"oldObject.metadata.labels['{NAME}'] == '{deployment.name}'",
                f"oldObject.metadata.labels['{COMPONENT}'] in {components}",
            )
        ),
        "images must stay": " && ".join(map(_same_images, ("containers", "initContainers"))),
        "tolerations and times must stay": " && ".join(map(_same, KEPT_FIELDS)),
        "labels, finalizers and owners must stay": " && ".join(map(_same, KEPT_MARKS)),
        "other annotations must stay": kept_notes,
    }
    updates = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["pods", "pods/resize"],
    }
    return [
        {
            **_object(f"{ADMISSION}/v1", "ValidatingAdmissionPolicy", name),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [updates]},
                "matchConditions": [
                    {"name": "upkeep", "expression": f"request.userInfo.username == '{user}'"}
                ],
                "variables": [{"name": "old", "expression": old}, {"name": "new", "expression": new}],
                "validations": [
                    {"expression": rule, "message": f"{name}: {said}"} for said, rule in rules.items()
                ],
            },
        },
        {
            **_object(f"{ADMISSION}/v1", "ValidatingAdmissionPolicyBinding", name),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _same(path: str) -> str:
    """Expression in CEL: a field that may be missing is as it was."""
    new, old = f"object.{path}", f"oldObject.{path}"
    return f"(has({new}) ? has({old}) && {new} == {old} : !has({old}))"


def _same_images(path: str) -> str:
    new, old = (f"{of}.spec.{path}" for of in ("object", "oldObject"))
    same = f"{new}.all(one, {old}.exists(other, other.name == one.name && other.image == one.image))"
    return f"(has({new}) ? has({old}) && {same} : !has({old}))"


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
                    "securityContext": dict(POD_SECURITY),
                    "containers": [
                        {
                            "name": "upkeep",
                            "image": deployment.image,
                            "args": upkeep_words(deployment),
                            "env": env,
                            "resources": {"requests": RESOURCES, "limits": {"memory": RESOURCES["memory"]}},
                            "securityContext": dict(SECURITY),
                            "volumeMounts": mounts,
                        }
                    ],
                    "volumes": volumes,
                },
            },
        },
    }

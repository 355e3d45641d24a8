"""Kustomize bases of a service: stages, gateways and what guards them; monitoring; load. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kwiken.base.errors import InputError
from kwiken.export.deployments.certificates import (
    FOLDER as TLS_FOLDER,
    SIDES,
    health_program,
    secret_of,
    stage_name,
)
from kwiken.export.deployments.deployment import (
    COMPONENT,
    GATEWAY_PORT,
    JAEGER_IMAGE,
    NAME,
    OTLP_PORT,
    STAGE_PORT,
    Deployment,
    StageReplicas,
)
from kwiken.export.deployments.load import LOCUST, LOCUSTFILE, MOUNT, locust_words, locustfile, trusted
from kwiken.export.deployments.monitoring import (
    BOARD,
    BOARD_LABEL,
    FOLDER as MONITORING,
    file_of_monitoring,
    monitoring_objects,
)
from kwiken.export.deployments.upkeep import (
    DEFAULT_NAMESPACE,
    OF_THE_CLUSTER,
    POD_SECURITY,
    SECURITY,
    UPKEEP_FILES,
    upkeep_objects,
)
from kwiken.export.placements.groups import MAX_LABEL, affinity_of, spread_of
from kwiken.export.yaml import dump
from kwiken.model.nodes.nodes import HOST_LABEL
from kwiken.model.nodes.placement import PLACED_GATE

PLAN_FOLDER: Final = "/etc/kwiken/plan"
# A replica that ends still answers for as long as a gateway may take to look its name up again: 5 s between
# look-ups, 5 s that the cluster's name server keeps an answer, and 3 s for a slow one.
LINGER_S: Final = 15
GRACE_S: Final = 10  # for calls in flight
STAGE_RESOURCES: Final = {"cpu": "100m", "memory": "256Mi"}
GATEWAY_RESOURCES: Final = {"cpu": "250m", "memory": "512Mi"}
LOCUST_RESOURCES: Final = {"cpu": "500m", "memory": "512Mi"}
MAX_SCALE: Final = 4  # times a stage's own number of replicas, to which autoscaling may go
TARGET_USE: Final = 60  # percent of the requested processors at which a stage is scaled
Object = dict[str, Any]


def kubernetes_files(deployment: Deployment, *, made_by: str) -> dict[str, str]:
    """Files of a Kustomize base by name.

    Args:
        made_by: command that writes these files, for their headers.

    Raises:
        InputError: the names of service and stage are too long together.
    """
    space = deployment.namespace or (DEFAULT_NAMESPACE if deployment.upkeep else None)
    deployment = replace(deployment, jaeger=f"{deployment.name}-jaeger", namespace=space)
    objects: dict[str, list[Object]] = {
        "gateway.yaml": _gateway(deployment),
        "stages.yaml": [one for group in _by_stage(deployment).values() for one in _stage(deployment, group)],
        "network.yaml": _network(deployment),
    }
    if deployment.otlp is None:
        objects["jaeger.yaml"] = _jaeger(deployment)
    scaled = [each for each in deployment.stages if each.stage not in deployment.managed]
    if deployment.autoscale and scaled:
        objects["autoscale.yaml"] = [_scaler(deployment, each) for each in scaled]
    if deployment.upkeep:
        objects["upkeep.yaml"] = upkeep_objects(deployment)
    header = [f"Service {deployment.service.name}. Made by: {made_by}"]
    maps = [
        {"name": f"{deployment.name}-plan", "files": ["plan.json"]},
        *([_documents(deployment)] if deployment.upkeep else []),
    ]
    how = [
        *header,
        "",
        "  kubectl apply -k .",
        f"  kubectl create secret generic {deployment.name}-token --from-literal=token=TOKEN"
        + (f" --namespace {space}" if space is not None else ""),
        "",
        "The secret opens the control routes.",
        *(_certificates(deployment) if deployment.tls else ()),
    ]
    files = _base(objects, maps, header, how, space)
    files["plan.json"] = deployment.plan if deployment.plan is not None else "null\n"
    for folder, base in (
        (MONITORING, _monitoring(deployment, header)),
        (LOCUST, _load(deployment, header, made_by)),
    ):
        files |= {f"{folder}/{name}": text for name, text in base.items()}
    return files


def _base(
    objects: Mapping[str, list[Object]],
    maps: Sequence[Object],
    header: list[str],
    how: list[str],
    space: str | None,
) -> dict[str, str]:
    """Files of a Kustomize base by name: objects by their file, and the maps that are made of other files.

    Raises:
        InputError: a name is too long.
    """
    own = [each for those in objects.values() for each in those if each["kind"] not in OF_THE_CLUSTER]
    _check_names(own)
    placed = {"namespace": space} if space is not None else {}
    for each in own:
        each["metadata"] |= placed
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(objects),
        # The names stay, so that a new plan reaches the files of running gateways and starts none anew.
        "configMapGenerator": [{**each, **placed} for each in maps],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    files = {name: dump([((), each) for each in those], header, width=160) for name, those in objects.items()}
    return files | {"kustomization.yaml": dump([((), kustomization)], how)}


def _monitoring(deployment: Deployment, header: list[str]) -> dict[str, str]:
    """Base of its own with alerts, scrape and board, for clusters that have Prometheus's operator."""
    board = {
        "name": f"{deployment.name}-board",
        "files": [BOARD],
        "options": {"labels": {BOARD_LABEL: "1"}},
    }
    how = [
        *header,
        "",
        f"  kubectl apply -k {MONITORING}",
        "",
        "Needs Prometheus's operator. Add the labels by which your Prometheus selects monitors and rules.",
        "Grafana's sidecar takes the board, from this namespace or from all, as it is set.",
    ]
    files = _base(
        {"prometheus.yaml": monitoring_objects(deployment)}, [board], header, how, deployment.namespace
    )
    return files | {BOARD: file_of_monitoring(BOARD)}


def _load(deployment: Deployment, header: list[str], made_by: str) -> dict[str, str]:
    """Base of its own with a Job that loads the gateways; empty without an image of Locust."""
    if deployment.load_image is None:
        return {}
    how = [
        *header,
        "",
        f"  kubectl delete -k {LOCUST} --ignore-not-found && kubectl apply -k {LOCUST}",
        "",
        "Rate, duration and JSON body of the requests are words of the Job's command.",
    ]
    maps = [{"name": f"{deployment.name}-{LOCUST}", "files": [LOCUSTFILE]}]
    objects = {"job.yaml": [_locust_job(deployment, deployment.load_image)]}
    return _base(objects, maps, header, how, deployment.namespace) | {LOCUSTFILE: locustfile(made_by)}


def _locust_job(deployment: Deployment, image: str) -> Object:
    name, labels = f"{deployment.name}-{LOCUST}", deployment.labels(LOCUST)
    volumes: list[Object] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": LOCUST, "configMap": {"name": name}},
    ]
    mounts: list[Object] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the container
        {"name": LOCUST, "mountPath": MOUNT, "readOnly": True},
    ]
    if deployment.tls:  # of the gateways' Secret the authorities alone, and not the key
        items = [{"key": "ca.crt", "path": "ca.crt"}]
        secret = {"secretName": secret_of(deployment.name, "gateway"), "items": items}
        volumes.append({"name": "tls", "secret": secret})
        mounts.append({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True})
    words = locust_words(deployment, f"{deployment.name}-gateway")
    environment = [{"name": key, "value": value} for key, value in trusted(deployment).items()]
    pod = {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "securityContext": dict(POD_SECURITY),
        "containers": [
            {
                "name": LOCUST,
                "image": image,
                "command": [LOCUST],
                "args": [*words, "--headless", "--rate=10", "--duration=60", "--body={}"],
                **({"env": environment} if environment else {}),
                "resources": {"requests": LOCUST_RESOURCES, "limits": _memory(LOCUST_RESOURCES)},
                "securityContext": dict(SECURITY),
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        # Load that failed is not sent again.
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def _certificates(deployment: Deployment) -> list[str]:
    """What the comments say of certificates."""
    gateway, stage = (secret_of(deployment.name, side) for side in SIDES)
    return [
        "",
        f"Secrets {gateway} and {stage} hold tls.crt, tls.key and ca.crt each.",
        f"That of the stages is for the name {stage_name(deployment.name)}, for servers and clients.",
    ]


def _check_names(objects: Sequence[Object]) -> None:
    """Refuse names that Kubernetes refuses: those of Services are names of hosts."""
    longest = max((each["metadata"]["name"] for each in objects), key=len)
    if len(longest) > MAX_LABEL:
        raise InputError(
            f"would be a name in Kubernetes, which allows {MAX_LABEL} characters, and has {len(longest)}; "
            "shorten the names of the service and its stages",
            where=longest,
        )


def _documents(deployment: Deployment) -> Object:
    """What the upkeep reads, as files beside the others."""
    return {"name": f"{deployment.name}-upkeep", "files": list(UPKEEP_FILES)}


def _by_stage(deployment: Deployment) -> dict[str, list[StageReplicas]]:
    found: dict[str, list[StageReplicas]] = {}
    for each in deployment.stages:
        found.setdefault(each.stage, []).append(each)
    return found


def _stage(deployment: Deployment, groups: list[StageReplicas]) -> list[Object]:
    """Service, disruption budget and Deployments of one stage."""
    component = _component(groups)
    labels = deployment.labels(component)
    name = f"{deployment.name}-{component}"
    return [
        *(_stage_deployment(deployment, group, labels) for group in groups),
        _service(name, labels, STAGE_PORT, headless=True),
        _disruptions(name, labels),
    ]


def _component(groups: list[StageReplicas]) -> str:
    """Name of a stage among its service's components: that of its groups without their sizes."""
    first = groups[0]
    size = f"-{first.placed.resources['cpu']}" if first.placed is not None and len(groups) > 1 else ""
    return first.name.removesuffix(size)


def _stage_deployment(deployment: Deployment, group: StageReplicas, labels: dict[str, str]) -> Object:
    own = {**labels, "kwiken/group": group.name}
    amounts = group.placed.resources if group.placed is not None else STAGE_RESOURCES
    # A pod that an upkeep resizes must keep its class of service: limits are requests from the start.
    managed = group.stage in deployment.managed
    bounded = group.placed is not None or managed
    pod = _pod(
        deployment,
        "stage",
        deployment.stage_command(group.stage),
        STAGE_PORT,
        resources={"requests": amounts, "limits": amounts if bounded else _memory(amounts)},
    )
    if managed:
        pod["schedulingGates"] = [{"name": PLACED_GATE}]
    elif group.placed is not None:
        pod["affinity"] = affinity_of(group.placed, labels)
        pod["topologySpreadConstraints"] = spread_of(group.placed, own)
    else:
        pod["topologySpreadConstraints"] = _spread(own)
    count = {} if deployment.autoscale and not managed else {"replicas": group.count}
    return _deployment(f"{deployment.name}-{group.name}", own, pod, count)


def _gateway(deployment: Deployment) -> list[Object]:
    labels = deployment.labels("gateway")
    name = f"{deployment.name}-gateway"
    hosts = {each.stage: f"{deployment.name}-{_component(those)}" for each, those in _firsts(deployment)}
    more = [f"--plan={PLAN_FOLDER}/plan.json", f"--sibling={name}-peers:{GATEWAY_PORT}"]
    pod = _pod(
        deployment,
        "gateway",
        deployment.gateway_command(list(hosts.items()), *more),
        GATEWAY_PORT,
        resources={"requests": GATEWAY_RESOURCES, "limits": _memory(GATEWAY_RESOURCES)},
    )
    container = pod["containers"][0]
    token = {"name": f"{deployment.name}-token", "key": "token", "optional": True}
    container["env"] = [{"name": "KWIKEN_TOKEN", "valueFrom": {"secretKeyRef": token}}]
    # A folder, not one file of it: only folders of a ConfigMap follow its changes.
    container["volumeMounts"].append({"name": "plan", "mountPath": PLAN_FOLDER, "readOnly": True})
    pod["volumes"].append({"name": "plan", "configMap": {"name": f"{deployment.name}-plan"}})
    pod["topologySpreadConstraints"] = _spread(labels)
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(GATEWAY_PORT),
        "prometheus.io/path": "/metrics",
        "prometheus.io/param_alone": "1",  # each gateway is read by itself
        **({"prometheus.io/scheme": "https"} if deployment.tls else {}),
    }
    peers = {"name": f"{name}-peers", "labels": deployment.labels("gateway-peers")}
    return [
        _deployment(name, labels, pod, {"replicas": deployment.gateways}, annotations),
        _service(name, labels, GATEWAY_PORT, headless=False),
        # Its own component: a monitor of the gateways' Service must not see each gateway a second time.
        _service(f"{name}-peers", labels, GATEWAY_PORT, headless=True) | {"metadata": peers},
        _disruptions(name, labels),
    ]


def _firsts(deployment: Deployment) -> list[tuple[StageReplicas, list[StageReplicas]]]:
    return [(those[0], those) for those in _by_stage(deployment).values()]


def _pod(
    deployment: Deployment, name: str, command: list[str], port: int, *, resources: Object
) -> dict[str, Any]:
    ready, alive = (_probe(deployment, name, port, path) for path in ("/readyz", "/livez"))
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {}}]
    mounts: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the container
    if deployment.tls:
        volumes.append({"name": "tls", "secret": {"secretName": secret_of(deployment.name, name)}})
        mounts.append({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True})
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": LINGER_S + GRACE_S + 5,
        "securityContext": dict(POD_SECURITY),
        "containers": [
            {
                "name": name,
                "image": deployment.image,
                "args": command,
                "ports": [{"name": "http", "containerPort": port}],
                "resources": resources,
                "startupProbe": {**ready, "periodSeconds": 2, "failureThreshold": 60},
                "readinessProbe": {**ready, "periodSeconds": 5, "timeoutSeconds": 5},
                "livenessProbe": {
                    **alive,
                    "periodSeconds": 10,
                    "timeoutSeconds": 5,
                    "failureThreshold": 3,
                },
                "lifecycle": {"preStop": {"sleep": {"seconds": LINGER_S}}},
                "securityContext": dict(SECURITY),
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


def _probe(deployment: Deployment, name: str, port: int, path: str) -> Object:
    """Question for a pod's health: in a stage's container over TLS, as the kubelet shows no certificate."""
    if deployment.tls and name == "stage":
        return {"exec": {"command": ["python", "-IS", "-c", health_program(port, path, tls=True)]}}
    scheme = {"scheme": "HTTPS"} if deployment.tls else {}
    return {"httpGet": {"path": path, "port": "http", **scheme}}


def _deployment(
    name: str,
    labels: dict[str, str],
    pod: Object,
    count: Object,
    annotations: dict[str, str] | None = None,
) -> Object:
    noted = {"annotations": annotations} if annotations is not None else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            **count,
            # The gateways know a new replica before an old one ends.
            "minReadySeconds": LINGER_S,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, **noted}, "spec": pod},
        },
    }


def _service(name: str, labels: dict[str, str], port: int, *, headless: bool) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            **({"clusterIP": "None"} if headless else {}),
            "selector": labels,
            "ports": [{"name": "http", "port": port, "targetPort": "http"}],
        },
    }


def _disruptions(name: str, labels: dict[str, str]) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "labels": labels},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
    }


def _network(deployment: Deployment) -> list[Object]:
    """Policies: pods of stages take connections from gateways alone."""
    gateways = {"podSelector": {"matchLabels": deployment.labels("gateway")}}
    stages = sorted({_component(those) for _, those in _firsts(deployment)})
    if not stages:
        return []
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": f"{deployment.name}-stages"},
            "spec": {
                "podSelector": {
                    "matchLabels": {NAME: deployment.name},
                    "matchExpressions": [{"key": COMPONENT, "operator": "In", "values": stages}],
                },
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [gateways], "ports": [{"protocol": "TCP", "port": STAGE_PORT}]}],
            },
        }
    ]


def _jaeger(deployment: Deployment) -> list[Object]:
    labels = deployment.labels("jaeger")
    ports = {"otlp": OTLP_PORT, "page": 16686}
    amounts = {"cpu": "250m", "memory": "512Mi"}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": deployment.jaeger, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "automountServiceAccountToken": False,
                        "securityContext": dict(POD_SECURITY),
                        "containers": [
                            {
                                "name": "jaeger",
                                "image": JAEGER_IMAGE,
                                "env": [
                                    {"name": "JAEGER_LISTEN_HOST", "value": "0.0.0.0"}  # noqa: S104 - there
                                ],
                                "ports": [
                                    {"name": name, "containerPort": port} for name, port in ports.items()
                                ],
                                "resources": {"requests": amounts, "limits": _memory(amounts)},
                                "securityContext": dict(SECURITY),
                            }
                        ],
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": deployment.jaeger, "labels": labels},
            "spec": {
                "selector": labels,
                "ports": [{"name": name, "port": port, "targetPort": name} for name, port in ports.items()],
            },
        },
    ]


def _scaler(deployment: Deployment, group: StageReplicas) -> Object:
    name = f"{deployment.name}-{group.name}"
    use = {"type": "Utilization", "averageUtilization": TARGET_USE}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": group.count,
            "maxReplicas": MAX_SCALE * group.count,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": use}}],
        },
    }


def _spread(labels: dict[str, str]) -> list[Object]:
    """Spread of pods without a placement: over nodes, as far as there are any."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST_LABEL,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
    ]


def _memory(amounts: Mapping[str, str]) -> dict[str, str]:
    """Limit of the memory alone: processes may use what processors are free."""
    return {"memory": amounts["memory"]}

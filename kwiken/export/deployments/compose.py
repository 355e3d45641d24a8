"""Compose file of a service: gateways, every stage's replicas, Jaeger, Prometheus, Grafana and Locust."""

from __future__ import annotations

from typing import Any, Final

from kwiken.export.deployments.certificates import (
    AUTHORITIES,
    FOLDER as TLS_FOLDER,
    health_program,
    stage_name,
)
from kwiken.export.deployments.deployment import (
    GATEWAY_PORT,
    JAEGER_IMAGE,
    STAGE_PORT,
    Deployment,
    StageReplicas,
)
from kwiken.export.deployments.load import (
    LOCUST,
    LOCUST_PORT,
    LOCUSTFILE,
    MOUNT,
    locust_words,
    locustfile,
    trusted,
)
from kwiken.export.deployments.monitoring import (
    GRAFANA_PORT,
    PROMETHEUS_PORT,
    monitoring_files,
    monitoring_services,
)
from kwiken.export.placements.groups import mebibytes
from kwiken.export.yaml import dump

WIDTH: Final = 250  # of a line: a check of health stays in one
STAGE_MEMORY: Final = "256m"
GATEWAY_MEMORY: Final = "512m"
LOCUST_MEMORY: Final = "512m"
PAGE_PORT: Final = 16686  # of Jaeger's page
PLAN_FOLDER: Final = "/etc/kwiken/plan"
_TEMPLATES: Final = ("process", "stage")


def compose_files(deployment: Deployment, *, made_by: str) -> dict[str, str]:
    """Compose file, and what its containers read, by path.

    Args:
        made_by: command that writes these files, for their header.
    """
    files = {"compose.yaml": _compose_file(deployment, made_by)}
    if deployment.otlp is None:
        files |= monitoring_files(deployment, _gateways(deployment), made_by)
    if deployment.load_image is not None:
        files[f"{LOCUST}/{LOCUSTFILE}"] = locustfile(made_by)
    if deployment.plan is not None:
        files["plan/plan.json"] = deployment.plan
    return files


def _gateways(deployment: Deployment) -> list[str]:
    """Names of the gateways' containers."""
    return [f"gateway-{number + 1}" if number else "gateway" for number in range(deployment.gateways)]


def _compose_file(deployment: Deployment, made_by: str) -> str:
    stages = {each.name: _stage(deployment, each) for each in deployment.stages}
    gateways = _gateways(deployment)
    beside = {"jaeger": _jaeger(), **monitoring_services(deployment)} if deployment.otlp is None else {}
    if deployment.load_image is not None:
        beside[LOCUST] = _locust(deployment, deployment.load_image)
    text = dump(
        [
            (
                (),
                {
                    "name": deployment.name,
                    "x-process": _process(deployment),
                    "x-stage": {
                        **_merged("process"),
                        "mem_limit": STAGE_MEMORY,
                        "healthcheck": _check(deployment, STAGE_PORT, every_s=10),
                    },
                    "services": {
                        **{
                            name: _gateway(deployment, name, gateways, GATEWAY_PORT + number)
                            for number, name in enumerate(gateways)
                        },
                        **stages,
                        **beside,
                    },
                },
            )
        ],
        _header(deployment, made_by),
        width=WIDTH,
    )
    return _with_templates(text)


def _header(deployment: Deployment, made_by: str) -> list[str]:
    replicas = sum(each.count for each in deployment.stages)
    gateways = "a gateway" if deployment.gateways == 1 else f"{deployment.gateways} gateways"
    names = ["Jaeger", "Prometheus", "Grafana"] if deployment.otlp is None else []
    beside = "".join(
        f", {name}" for name in [*names, *(["Locust"] if deployment.load_image is not None else [])]
    )
    shown = (
        [
            f"  open http://127.0.0.1:{PAGE_PORT} (Jaeger: its traces)",
            f"  open http://127.0.0.1:{GRAFANA_PORT}/d/kwiken (Grafana: its latency, spend and replicas)",
            f"  open http://127.0.0.1:{PROMETHEUS_PORT}/alerts (Prometheus: what is wrong)",
        ]
        if deployment.otlp is None
        else []
    )
    if deployment.load_image is not None:
        shown.append(
            f"  open http://127.0.0.1:{LOCUST_PORT} (Locust: load, with $KWIKEN_BODY as the requests' JSON)"
        )
    return [
        f"Service {deployment.service.name} in containers: {gateways}, {replicas} replicas{beside}.",
        f"Made by: {made_by}",
        "",
        "  docker compose up --build --detach --wait",
        f"  open http{'s' * deployment.tls}://127.0.0.1:{GATEWAY_PORT} (the service's page)",
        *shown,
        "",
        *(_certificates(deployment) if deployment.tls else ()),
        "KWIKEN_TOKEN in the environment opens the gateway's control routes; they are closed without it.",
    ]


def _certificates(deployment: Deployment) -> list[str]:
    return [
        "tls/gateway and tls/stage hold tls.crt, tls.key and ca.crt each, which containers can read.",
        f"That of the stages holds the name {stage_name(deployment.name)}, for servers and clients.",
        *(["Locust calls the gateway by the name gateway."] if deployment.load_image is not None else []),
        "",
    ]


def _process(deployment: Deployment) -> dict[str, Any]:
    # One service builds the image of all: a build for each would be as many, one after the other or at once.
    never = {"pull_policy": "never"} if deployment.build is not None else {}
    return {
        "image": deployment.image,
        **never,
        "restart": "unless-stopped",
        "read_only": True,
        "tmpfs": ["/tmp"],  # noqa: S108 - a path in the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "stop_grace_period": "15s",
    }


def _built(deployment: Deployment, target: str | None = None) -> dict[str, Any]:
    """How the service that builds the image does so; empty where the image is built elsewhere.

    Args:
        target: target of the Dockerfile; None for its last.
    """
    build = deployment.build
    if build is None:
        return {}
    more = {"target": target} if target is not None else {}
    plain = build.dockerfile == "Dockerfile" and not more
    context = build.context if plain else {"context": build.context, "dockerfile": build.dockerfile, **more}
    return {"build": context, "pull_policy": "missing"}


def _locust(deployment: Deployment, image: str) -> dict[str, Any]:
    trust = [f"./tls/gateway/ca.crt:{AUTHORITIES}:ro"] if deployment.tls else []
    return {
        **_merged("process"),
        "image": image,
        **_built(deployment, LOCUST),
        "entrypoint": [LOCUST],
        # Locust takes an empty body for none: requests then have an empty object.
        "command": [*locust_words(deployment, "gateway"), "--body=${KWIKEN_BODY:-}"],
        **({"environment": trusted(deployment)} if deployment.tls else {}),
        "ports": [f"127.0.0.1:{LOCUST_PORT}:{LOCUST_PORT}"],
        "volumes": [f"./{LOCUST}:{MOUNT}:ro", *trust],
        "mem_limit": LOCUST_MEMORY,
        "depends_on": ["gateway"],
    }


def _gateway(deployment: Deployment, name: str, gateways: list[str], port: int) -> dict[str, Any]:
    siblings = [f"--sibling={other}:{GATEWAY_PORT}" for other in gateways if other != name]
    plan = [f"--plan={PLAN_FOLDER}/plan.json"] if deployment.plan is not None else []
    hosts = [(each.stage, each.name) for each in deployment.stages]
    volumes = [f"./plan:{PLAN_FOLDER}:ro"] if deployment.plan is not None else []
    volumes += [f"./tls/gateway:{TLS_FOLDER}:ro"] if deployment.tls else []
    mounted = {"volumes": volumes} if volumes else {}
    return {
        **_merged("process"),
        **(_built(deployment) if name == gateways[0] else {}),
        "command": deployment.gateway_command(hosts, *plan, *siblings),
        "environment": {"KWIKEN_TOKEN": "${KWIKEN_TOKEN:-}"},
        "ports": [f"127.0.0.1:{port}:{GATEWAY_PORT}"],
        **mounted,
        "mem_limit": GATEWAY_MEMORY,
        "depends_on": [each.name for each in deployment.stages],
        "healthcheck": _check(deployment, GATEWAY_PORT, every_s=5),
    }


def _stage(deployment: Deployment, group: StageReplicas) -> dict[str, Any]:
    limits = (
        {"cpus": round(group.placed.cores, 3), "mem_limit": f"{mebibytes(group.placed.memory_gb)}m"}
        if group.placed is not None
        else {}
    )
    return {
        **_merged("stage"),
        "command": deployment.stage_command(group.stage),
        **({"volumes": [f"./tls/stage:{TLS_FOLDER}:ro"]} if deployment.tls else {}),
        **limits,
        "deploy": {"replicas": group.count},
    }


def _jaeger() -> dict[str, Any]:
    return {
        "image": JAEGER_IMAGE,
        "environment": {"JAEGER_LISTEN_HOST": "0.0.0.0"},  # noqa: S104 - in its container
        "restart": "unless-stopped",
        "ports": [f"127.0.0.1:{PAGE_PORT}:{PAGE_PORT}"],
        "mem_limit": "512m",
    }


def _check(deployment: Deployment, port: int, *, every_s: int) -> dict[str, Any]:
    program = health_program(port, "/readyz", tls=deployment.tls)
    return {
        "test": ["CMD", "python", "-IS", "-c", program],
        "interval": f"{every_s}s",
        "timeout": "5s",
        "start_period": "30s",
    }


def _merged(template: str) -> dict[str, Any]:
    """Reference to a template, which `_with_templates` turns into YAML's own."""
    return {"<<": f"*{template}"}


def _with_templates(text: str) -> str:
    """Turn the references to templates into anchors and aliases, which plain values cannot express."""
    for name in _TEMPLATES:
        text = text.replace(f"\nx-{name}:\n", f"\n\nx-{name}: &{name}\n")
        text = text.replace(f'"<<": "*{name}"', f"<<: *{name}")
    return text.replace("\nname: ", "\n\nname: ", 1).replace("\nservices:\n", "\n\nservices:\n", 1)

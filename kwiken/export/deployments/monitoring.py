"""Prometheus and Grafana: containers and files for Compose, objects of Prometheus's operator."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from kwiken.base.parsing.strict_yaml import parse_yaml
from kwiken.export.deployments.certificates import (
    AUTHORITIES,
    CERTIFICATE,
    FOLDER as TLS_FOLDER,
    KEY,
    stage_name,
)
from kwiken.export.deployments.deployment import GATEWAY_PORT, STAGE_PORT, Deployment
from kwiken.export.yaml import comment, dump

PROMETHEUS_IMAGE: Final = "prom/prometheus:v3.5.0"
GRAFANA_IMAGE: Final = "grafana/grafana:12.1.0"
PROMETHEUS_PORT: Final = 9090
GRAFANA_PORT: Final = 3000
FOLDER: Final = "monitoring"  # beside the Compose file
ALERTS: Final = "alerts.yml"
BOARD: Final = "grafana-board.json"
INTERVAL: Final = "5s"  # a replica that is replaced has another address
BOARD_LABEL: Final = "grafana_dashboard"  # by which Grafana's sidecar knows a ConfigMap with a board
OPERATOR: Final = "monitoring.coreos.com/v1"
# Each gateway tells its own metrics: without this it adds up those of all, which Prometheus does too.
ALONE: Final = {"alone": ["1"]}
_PROVISIONING: Final = "/etc/grafana/provisioning"


def monitoring_services(deployment: Deployment) -> dict[str, Any]:
    """Containers of Prometheus and Grafana, by name, as a Compose file states them."""
    certificates = [f"./tls/stage:{TLS_FOLDER}:ro"] if deployment.tls else []
    return {
        "prometheus": {
            "image": PROMETHEUS_IMAGE,
            "command": ["--config.file=/etc/prometheus/prometheus.yml", "--enable-feature=exemplar-storage"],
            "restart": "unless-stopped",
            "ports": [f"127.0.0.1:{PROMETHEUS_PORT}:{PROMETHEUS_PORT}"],
            "volumes": [f"./{FOLDER}/prometheus:/etc/prometheus:ro", *certificates],
            "mem_limit": "512m",
        },
        "grafana": {
            "image": GRAFANA_IMAGE,
            # Whoever reaches the port of this machine may look, and nobody may change anything.
            "environment": {"GF_AUTH_ANONYMOUS_ENABLED": "true", "GF_AUTH_DISABLE_LOGIN_FORM": "true"},
            "restart": "unless-stopped",
            "ports": [f"127.0.0.1:{GRAFANA_PORT}:{GRAFANA_PORT}"],
            "volumes": [f"./{FOLDER}/grafana:{_PROVISIONING}:ro"],
            "mem_limit": "512m",
            "depends_on": ["prometheus"],
        },
    }


def monitoring_files(deployment: Deployment, gateways: Sequence[str], made_by: str) -> dict[str, str]:
    """Files that Prometheus and Grafana read, by path beside the Compose file.

    Args:
        gateways: names of the gateways' containers.
        made_by: command that writes the files, for their headers.
    """
    header = [f"Made by: {made_by}"]
    source = {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "Prometheus",
                "type": "prometheus",
                "url": f"http://prometheus:{PROMETHEUS_PORT}",
                "isDefault": True,
                "jsonData": {"timeInterval": INTERVAL},
            }
        ],
    }
    boards = {
        "apiVersion": 1,
        "providers": [{"name": "kwiken", "type": "file", "options": {"path": f"{_PROVISIONING}/dashboards"}}],
    }
    return {
        f"{FOLDER}/prometheus/prometheus.yml": dump([((), _scrapes(deployment, gateways))], header),
        f"{FOLDER}/prometheus/{ALERTS}": comment(header) + file_of_monitoring(ALERTS),
        f"{FOLDER}/grafana/datasources/prometheus.yml": dump([((), source)], header),
        f"{FOLDER}/grafana/dashboards/boards.yml": dump([((), boards)], header),
        f"{FOLDER}/grafana/dashboards/{BOARD}": file_of_monitoring(BOARD),
    }


def monitoring_objects(deployment: Deployment) -> list[dict[str, Any]]:
    """Alerts, and what to scrape, as objects of Prometheus's operator.

    Gateways alone are scraped: a network policy keeps all others from the stages, whose calls gateways count.
    """
    name, labels = deployment.name, deployment.labels("gateway")
    secured = {"scheme": "https", "tlsConfig": {"insecureSkipVerify": True}} if deployment.tls else {}
    alerts, _ = parse_yaml(file_of_monitoring(ALERTS), where=ALERTS)
    endpoint = {"port": "http", "path": "/metrics", "interval": "15s", "params": ALONE, **secured}
    return [
        {
            "apiVersion": OPERATOR,
            "kind": "ServiceMonitor",
            "metadata": {"name": f"{name}-gateway", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "endpoints": [endpoint]},
        },
        {
            "apiVersion": OPERATOR,
            "kind": "PrometheusRule",
            "metadata": {"name": f"{name}-alerts", "labels": labels},
            "spec": alerts,
        },
    ]


def file_of_monitoring(name: str) -> str:
    """Text of `ALERTS` or `BOARD`."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _scrapes(deployment: Deployment, gateways: Sequence[str]) -> dict[str, Any]:
    """Configuration of Prometheus, which looks up the names of containers: each name has all addresses."""
    shown = {"ca_file": AUTHORITIES, "cert_file": CERTIFICATE, "key_file": KEY}
    # The certificate of a gateway holds the name that callers know, which nobody in these containers does.
    secured = {"scheme": "https", "tls_config": {"insecure_skip_verify": True}} if deployment.tls else {}
    doors = {"params": ALONE, **secured}
    stages = (
        {"scheme": "https", "tls_config": shown | {"server_name": stage_name(deployment.name)}}
        if deployment.tls
        else {}
    )
    return {
        "global": {"scrape_interval": INTERVAL},
        "rule_files": [ALERTS],
        "scrape_configs": [
            {
                "job_name": job,
                **security,
                "dns_sd_configs": [{"names": names, "type": "A", "port": port, "refresh_interval": INTERVAL}],
            }
            for job, names, port, security in (
                ("gateways", list(gateways), GATEWAY_PORT, doors),
                ("stages", [each.name for each in deployment.stages], STAGE_PORT, stages),
            )
            if names
        ],
    }

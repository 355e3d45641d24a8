"""Monitoring and load beside a service: scraped once, of the API's types, and requests that arrive."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwiken.export.deployments.compose import compose_files
from kwiken.export.deployments.deployment import Build, Deployment, replicas_of
from kwiken.export.deployments.kubernetes import kubernetes_files
from kwiken.export.deployments.load import image_of_load
from kwiken.model.service.service import Service
from tests.support.export.schemas import faults, faults_of_object, schema_of_resource
from tests.support.project.commands import run
from tests.support.runtime.stacks import running_cluster

OPERATOR = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
CRDS = "example/prometheus-operator-crd/monitoring.coreos.com_{}s.yaml"
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"tls": True, "namespace": "east", "gateways": 3},
    {"autoscale": True, "otlp": "http://c:4318"},
    {"managed": {"find"}, "namespace": "east"},
)


def deployed(**more: Any) -> Deployment:
    service = Service("Tea_Shop")

    async def find(value: str) -> str:
        return value

    service.stage(replicas=2, idempotent=True)(find)
    return Deployment(
        service=service,
        target="shop:shop",
        image="registry.example:5000/shop:1",
        build=Build(),
        stages=replicas_of(service, None, where="p"),
        load_image="registry.example:5000/shop-locust:1",
        **more,
    )


def manifests(**more: Any) -> dict[str, list[dict[str, Any]]]:
    """Objects by file."""
    files = kubernetes_files(deployed(**more), made_by="kwiken export")
    return {
        name: list(yaml.safe_load_all(text))
        for name, text in files.items()
        if name.endswith(".yaml") and not name.endswith("kustomization.yaml")
    }


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_object_is_of_its_api_type(settings: dict[str, Any]) -> None:
    seen = set()
    for name, those in manifests(**settings).items():
        for one in those:
            seen.add(one["kind"])
            if name == "monitoring/prometheus.yaml":
                schema = schema_of_resource(*OPERATOR, CRDS.format(one["kind"].lower()))
                found = faults(one, schema, "it", {"it.metadata"})
            else:
                found = faults_of_object(one)
            assert found == [], one["metadata"]
    assert {"Deployment", "Job", "NetworkPolicy", "PrometheusRule", "Service", "ServiceMonitor"} <= seen


def test_the_checks_see_faults() -> None:
    those = manifests()
    [job] = those["locust/job.yaml"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["colour"] = "red"
    container["args"] = "--headless"
    job["spec"]["backoffLimit"] = "0"
    assert len(faults_of_object(job)) == 3
    assert faults_of_object({"apiVersion": "batch/v3", "kind": "Job"}) == [
        "io.k8s.api.batch.v3.Job is no type of the API"
    ]
    monitor, rule = those["monitoring/prometheus.yaml"]
    monitor["spec"]["endpoints"][0]["interval"] = "soon"
    rule["spec"]["groups"][0]["rules"][0]["query"] = "up"
    for one in (monitor, rule):
        schema = schema_of_resource(*OPERATOR, CRDS.format(one["kind"].lower()))
        assert len(faults(one, schema, "it", {"it.metadata"})) == 1


@pytest.mark.parametrize("tls", [False, True])
def test_the_monitor_sees_each_gateway_once_and_alone(tls: bool) -> None:
    those = manifests(tls=tls, gateways=2)
    monitor, rule = those["monitoring/prometheus.yaml"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for one in those["gateway.yaml"] if one["kind"] == "Service"]
    [seen] = [one for one in services if wanted <= one["metadata"]["labels"].items()]
    assert seen["metadata"]["name"] == "tea-shop-gateway"
    [endpoint] = monitor["spec"]["endpoints"]
    assert [port["name"] for port in seen["spec"]["ports"]] == [endpoint["port"]]
    assert endpoint["params"] == {"alone": ["1"]}
    assert endpoint.get("scheme", "http") == ("https" if tls else "http")
    pods = next(one for one in those["gateway.yaml"] if one["kind"] == "Deployment")
    for service in services:
        assert service["spec"]["selector"] == pods["spec"]["selector"]["matchLabels"]
    alerts = Path(kubernetes_files.__code__.co_filename).with_name("alerts.yml")
    assert rule["spec"] == yaml.safe_load(alerts.read_text())


def test_in_compose_each_gateway_is_asked_alone() -> None:
    files = compose_files(deployed(gateways=2), made_by="kwiken export")
    settings = yaml.safe_load(files["monitoring/prometheus/prometheus.yml"])
    by_job = {each["job_name"]: each for each in settings["scrape_configs"]}
    assert by_job["gateways"]["params"] == {"alone": ["1"]}
    assert "params" not in by_job["stages"]


def test_load_is_sent_only_where_it_is_asked_for() -> None:
    files = kubernetes_files(deployed(namespace="east"), made_by="kwiken export")
    base = yaml.safe_load(files["kustomization.yaml"])
    assert all("/" not in name and name in files for name in base["resources"])
    for folder, names in (("monitoring", ["grafana-board.json"]), ("locust", ["locustfile.py"])):
        own = yaml.safe_load(files[f"{folder}/kustomization.yaml"])
        [made] = own["configMapGenerator"]
        assert (made["files"], made["namespace"]) == (names, "east")
        assert made["name"].startswith("tea-shop-")
        assert all(f"{folder}/{name}" in files for name in (*own["resources"], *names))
    board = yaml.safe_load(files["monitoring/kustomization.yaml"])["configMapGenerator"][0]
    assert board["options"]["labels"] == {"grafana_dashboard": "1"}


def test_pods_of_the_load_mount_what_they_read_and_no_key() -> None:
    [job] = manifests(tls=True)["locust/job.yaml"]
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    [secret] = [one["secret"] for one in pod["volumes"] if "secret" in one]
    assert [one["key"] for one in secret["items"]] == ["ca.crt"]
    assert pod["securityContext"]["runAsNonRoot"]
    compose = yaml.safe_load(compose_files(deployed(tls=True), made_by="")["compose.yaml"])
    mounts = compose["services"]["locust"]["volumes"]
    assert mounts == [
        "./locust:/etc/kwiken/locust:ro",
        "./tls/gateway/ca.crt:/etc/kwiken/tls/ca.crt:ro",
    ]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("shop:1", "shop-locust:1"),
        ("shop", "shop-locust"),
        ("registry.example:5000/a/shop", "registry.example:5000/a/shop-locust"),
        ("registry.example:5000/a/shop:v1.2", "registry.example:5000/a/shop-locust:v1.2"),
    ],
)
def test_the_image_of_the_load_stands_beside_the_services(image: str, expected: str) -> None:
    assert image_of_load(image) == expected


@pytest.mark.parametrize(
    ("dockerfile", "there"), [("FROM scratch AS locust\nFROM scratch\n", True), ("FROM a\n", False)]
)
def test_a_dockerfile_of_the_users_own_has_locust_or_none_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dockerfile: str, there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Dockerfile").write_text(dockerfile)
    for program, file in (("compose", "compose.yaml"), ("kubernetes", "locust/job.yaml")):
        result = run("export", "tests.support.services.single:service", "--to", program, "-o", ".")
        assert result.exit_code == 0, result.stderr
        assert ("no Locust beside the service" in result.stderr) is not there
        assert (program == "compose" or (tmp_path / file).exists()) == (there or program == "compose")
    services = yaml.safe_load((tmp_path / "compose.yaml").read_text())["services"]
    assert ("locust" in services) is there


def test_a_second_export_replaces_the_first_whatever_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM scratch AS locust\n")
    words = ("export", "tests.support.services.single:service", "-o", ".")
    for program in ("compose", "kubernetes"):
        for gateways in ("1", "2"):
            result = run(*words, "--to", program, "--gateways", gateways)
            assert result.exit_code == 0, result.stderr
    settings = yaml.safe_load((tmp_path / "monitoring/prometheus/prometheus.yml").read_text())
    assert settings["scrape_configs"][0]["dns_sd_configs"][0]["names"] == ["gateway", "gateway-2"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_every_folder(tmp_path: Path) -> None:
    for name, text in kubernetes_files(deployed(), made_by="kwiken export").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kinds = {}
    for folder in (".", "monitoring", "locust"):
        done = subprocess.run(
            ["kubectl", "kustomize", str(tmp_path / folder)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        built = list(yaml.safe_load_all(done.stdout))
        assert all(one["metadata"]["name"].startswith("tea-shop-") for one in built)
        kinds[folder] = {one["kind"] for one in built}
        assert all(not faults_of_object(one) for one in built if one["kind"] == "ConfigMap")
    assert kinds["monitoring"] == {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
    assert kinds["locust"] == {"ConfigMap", "Job"}


@pytest.mark.slow
def test_the_command_of_the_job_sends_its_load(tmp_path: Path) -> None:
    files = kubernetes_files(deployed(), made_by="kwiken export")
    [job] = yaml.safe_load_all(files["locust/job.yaml"])
    [container] = job["spec"]["template"]["spec"]["containers"]
    mount = container["volumeMounts"][-1]["mountPath"]
    (tmp_path / "locustfile.py").write_text(files["locust/locustfile.py"])
    with running_cluster(tmp_path / "state") as url:
        words = [
            word.replace(mount, str(tmp_path))
            .replace("http://tea-shop-gateway:8080", url)
            .replace("--duration=60", "--duration=2")
            .replace("--body={}", '--body={"text": "hi"}')
            for word in container["args"]
        ]
        done = subprocess.run(
            [str(Path(sys.executable).with_name("locust")), *words, "--json"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert row["num_requests"] > 0
    assert row["num_failures"] == 0

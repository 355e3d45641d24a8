"""Deployments of a service: every process with its command, sizes and nodes, in Compose and in Kubernetes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.errors import InputError
from kwiken.export.deployments.compose import compose_files
from kwiken.export.deployments.deployment import Build, Deployment, replicas_of
from kwiken.export.deployments.image import ImageContent, dockerfile, dockerignore
from kwiken.export.deployments.kubernetes import kubernetes_files
from kwiken.model.nodes.placement import PLACED_GATE, Placement
from kwiken.model.service.service import Service
from kwiken.upkeep.kubernetes.pods import giving_up, noting, placing
from papers.worlds.schedulers.names import scheduler
from tests.support.runtime.clusters import cluster, profile, requested


def shop(*names: str) -> Service:
    service = Service("Shop_1")
    before: list[Any] = []
    for name in names:

        async def handler(value: str) -> str:
            return value

        handler.__name__ = name
        before = [service.stage(after=before, replicas=2, idempotent=True)(handler)]
    return service


def deployed(service: Service, placement: Placement | None = None, **more: Any) -> Deployment:
    stages = replicas_of(service, placement, where="p")
    return Deployment(
        service=service,
        target="shop:shop",
        image="shop:1",
        build=Build(context="..", dockerfile="deploy/Dockerfile"),
        stages=stages,
        **more,
    )


def placed(service: Service, stage: str) -> Placement:
    nodes = cluster({"top": 6}, zones=3)
    asked = requested(31e3, profile({4: 11e3, 8: 20e3}, {"top": 1.0}, name="w"), nodes, spread=Spread.NODE)
    found = document(
        nodes, admit_all([asked], NodeLedger(nodes), scheduler("quasar")), scheduler="q", confidence=0.5
    )
    [workload] = found.workloads
    owned = msgspec.structs.replace(workload, service=service.name, stage=stage)
    return msgspec.structs.replace(found, workloads=[owned])


def objects(deployment: Deployment) -> dict[tuple[str, str], Any]:
    files = kubernetes_files(deployment, made_by="kwiken export")
    found = [
        one
        for name, text in files.items()
        if name.endswith(".yaml") and not name.endswith("kustomization.yaml")
        for one in yaml.safe_load_all(text)
    ]
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(by_name) == len(found)
    return by_name


@pytest.mark.parametrize("tls", [False, True])
def test_compose_brings_a_prometheus_that_asks_every_process(tls: bool) -> None:
    files = compose_files(deployed(shop("find", "show_it"), gateways=2, tls=tls), made_by="kwiken export")
    settings = yaml.safe_load(files["monitoring/prometheus/prometheus.yml"])
    asked = {
        (name, found["port"])
        for each in settings["scrape_configs"]
        for found in each["dns_sd_configs"]
        for name in found["names"]
    }
    assert asked == {("gateway", 8080), ("gateway-2", 8080), ("find", 9000), ("show-it", 9000)}
    assert {each.get("scheme", "http") for each in settings["scrape_configs"]} == {"https" if tls else "http"}
    read = [f"monitoring/prometheus/{name}" for name in settings["rule_files"]]
    services = yaml.safe_load(files["compose.yaml"])["services"]
    mounts = [
        mount.partition(":")[0][2:]
        for name in ("prometheus", "grafana")
        for mount in services[name]["volumes"]
    ]
    for mounted in mounts:
        assert mounted == "tls/stage" or any(path.startswith(f"{mounted}/") for path in files)
    assert all(yaml.safe_load(files[path])["groups"] for path in read)
    board = json.loads(files["monitoring/grafana/dashboards/grafana-board.json"])
    assert board["uid"] == "kwiken"


def test_an_own_collector_brings_no_monitoring() -> None:
    files = compose_files(deployed(shop("find"), otlp="http://c:4318"), made_by="")
    assert list(files) == ["compose.yaml"]


def test_compose_runs_every_process_of_the_image() -> None:
    text = compose_files(deployed(shop("find", "show_it"), gateways=2), made_by="kwiken export")[
        "compose.yaml"
    ]
    found = yaml.safe_load(text)
    services = found["services"]
    assert list(services) == ["gateway", "gateway-2", "find", "show-it", "jaeger", "prometheus", "grafana"]
    assert found["name"] == "shop-1"
    assert services["show-it"]["command"][-1] == "--stage=show_it"
    assert services["gateway"]["command"][5:] == [
        "--replica=find=find:9000",
        "--replica=show_it=show-it:9000",
        "--sibling=gateway-2:8080",
    ]
    assert [services[name]["ports"] for name in ("gateway", "gateway-2")] == [
        ["127.0.0.1:8080:8080"],
        ["127.0.0.1:8081:8080"],
    ]
    # One service builds the image of all; the others neither build nor pull it.
    assert {name for name, one in services.items() if "build" in one} == {"gateway"}
    assert services["gateway"]["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    assert services["gateway"]["pull_policy"] == "missing"
    others = [
        one for name, one in services.items() if name not in {"gateway", "grafana", "jaeger", "prometheus"}
    ]
    assert {one["pull_policy"] for one in others} == {"never"}
    assert {one["image"] for one in others} == {services["gateway"]["image"]}


def test_compose_takes_a_plan_and_a_collector() -> None:
    found = yaml.safe_load(
        compose_files(deployed(shop("find"), plan="{}", otlp="http://c:4318"), made_by="")["compose.yaml"]
    )
    gateway = found["services"]["gateway"]
    assert "jaeger" not in found["services"]
    assert "--plan=/etc/kwiken/plan/plan.json" in gateway["command"]
    assert gateway["volumes"] == ["./plan:/etc/kwiken/plan:ro"]
    assert "--otlp=http://c:4318" in gateway["command"]


def test_sizes_and_numbers_of_a_placement_are_used() -> None:
    service = shop("find", "show")
    placement = placed(service, "find")
    services = yaml.safe_load(compose_files(deployed(service, placement), made_by="")["compose.yaml"])[
        "services"
    ]
    sizes = sorted({one.cores for one in placement.workloads[0].replicas}, reverse=True)
    names = [f"find-{1000 * cores:.0f}m" for cores in sizes]
    assert [services[name]["cpus"] for name in names] == sizes
    counts = [sum(one.cores == cores for one in placement.workloads[0].replicas) for cores in sizes]
    assert [services[name]["deploy"]["replicas"] for name in names] == counts
    assert services["show"]["deploy"]["replicas"] == 2
    assert [word for word in services["gateway"]["command"] if word.startswith("--replica=find")] == [
        f"--replica=find={name}:9000" for name in names
    ]


def test_kubernetes_gets_deployments_services_and_budgets_by_stage() -> None:
    found = objects(deployed(shop("find", "show"), gateways=3))
    for name in ("shop-1-find", "shop-1-show", "shop-1-gateway"):
        spec = found["Deployment", name]["spec"]
        pod = spec["template"]
        assert spec["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert found["PodDisruptionBudget", name]["spec"]["maxUnavailable"] == 1
        assert found["Service", name]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        [container] = pod["spec"]["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe", "resources"} <= set(container)
        assert not pod["spec"]["automountServiceAccountToken"]
        # A pod's end: it lingers, then finishes its calls, within the time that it is given.
        linger = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pod["spec"]["terminationGracePeriodSeconds"] > linger + 10
    assert found["Service", "shop-1-find"]["spec"]["clusterIP"] == "None"
    assert found["Deployment", "shop-1-gateway"]["spec"]["replicas"] == 3
    assert found["Service", "shop-1-gateway-peers"]["spec"]["clusterIP"] == "None"
    assert not any(kind == "HorizontalPodAutoscaler" for kind, _ in found)


def test_only_gateways_reach_stages() -> None:
    found = objects(deployed(shop("find", "show")))
    policy = found["NetworkPolicy", "shop-1-stages"]["spec"]
    [rule] = policy["ingress"]
    [whom] = rule["from"]
    labels = found["Deployment", "shop-1-gateway"]["spec"]["template"]["metadata"]["labels"]
    assert whom["podSelector"]["matchLabels"] == labels
    [those] = policy["podSelector"]["matchExpressions"]
    assert those["values"] == ["find", "show"]


def test_the_plan_is_a_folder_of_a_map_whose_name_stays() -> None:
    files = kubernetes_files(deployed(shop("find"), plan='{"version": 1}'), made_by="")
    kustomization = yaml.safe_load(files["kustomization.yaml"])
    assert kustomization["generatorOptions"] == {"disableNameSuffixHash": True}
    assert kustomization["configMapGenerator"] == [{"name": "shop-1-plan", "files": ["plan.json"]}]
    assert files["plan.json"] == '{"version": 1}'
    assert kubernetes_files(deployed(shop("find")), made_by="")["plan.json"] == "null\n"
    pod = objects(deployed(shop("find")))["Deployment", "shop-1-gateway"]["spec"]["template"]["spec"]
    [mount] = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "plan"]
    assert "subPath" not in mount
    assert f"--plan={mount['mountPath']}/plan.json" in pod["containers"][0]["args"]


def test_a_placement_says_sizes_and_nodes_in_kubernetes() -> None:
    service = shop("find")
    placement = placed(service, "find")
    found = objects(deployed(service, placement))
    for cores in {one.cores for one in placement.workloads[0].replicas}:
        those = [one for one in placement.workloads[0].replicas if one.cores == cores]
        spec = found["Deployment", f"shop-1-find-{1000 * cores:.0f}m"]["spec"]
        assert spec["replicas"] == len(those)
        pod = spec["template"]["spec"]
        resources = pod["containers"][0]["resources"]
        assert resources["requests"] == resources["limits"]
        assert resources["requests"]["cpu"] == f"{1000 * cores:.0f}m"
        [wish] = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert wish["preference"]["matchExpressions"][0]["values"] == [one.node for one in those]
    # One Service, one budget and one rule of distance for all sizes.
    assert found["Service", "shop-1-find"]["spec"]["selector"]["app.kubernetes.io/component"] == "find"


def test_scaling_is_there_only_where_it_is_asked_for() -> None:
    managed = deployed(shop("find"), autoscale=True, managed={"find"})
    assert "autoscale.yaml" not in kubernetes_files(managed, made_by="")
    scaled = objects(deployed(shop("find"), autoscale=True))
    assert "replicas" not in scaled["Deployment", "shop-1-find"]["spec"]
    assert scaled["HorizontalPodAutoscaler", "shop-1-find"]["spec"]["minReplicas"] == 2
    kept = objects(deployed(shop("find"), managed={"find"}))
    pod = kept["Deployment", "shop-1-find"]["spec"]["template"]["spec"]
    assert pod["schedulingGates"] == [{"name": PLACED_GATE}]
    rights = kept["Role", "shop-1-upkeep"]["rules"]
    verbs = {verb for rule in rights for verb in rule["verbs"]}
    assert verbs == {"get", "list", "patch"}
    [scales] = [rule for rule in rights if rule["resources"] == ["deployments/scale"]]
    assert scales["resourceNames"] == ["shop-1-find"]


def test_pods_of_stages_without_a_target_wait_at_no_gate() -> None:
    kept = objects(deployed(shop("find", "show"), managed={"find"}))
    pods = {
        stage: kept["Deployment", f"shop-1-{stage}"]["spec"]["template"]["spec"] for stage in ("find", "show")
    }
    assert "schedulingGates" in pods["find"]
    assert "schedulingGates" not in pods["show"]
    assert "cpu" not in pods["show"]["containers"][0]["resources"]["limits"]
    assert pods["show"]["topologySpreadConstraints"]
    [scales] = [
        rule for rule in kept["Role", "shop-1-upkeep"]["rules"] if rule["resources"] == ["deployments/scale"]
    ]
    assert scales["resourceNames"] == ["shop-1-find"]


OF_THE_CLUSTER = {
    *("ClusterRole", "ClusterRoleBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
}


def test_two_installations_share_no_object() -> None:
    """Of one service in two namespaces, and of two services in one namespace."""
    first, second = (
        objects(deployed(shop("find"), managed={"find"}, namespace=name)) for name in ("east", "west")
    )
    for found, name in ((first, "east"), (second, "west")):
        inside = {key: one for key, one in found.items() if key[0] not in OF_THE_CLUSTER}
        assert {one["metadata"].get("namespace") for one in inside.values()} == {name}
        account = {"kind": "ServiceAccount", "name": "shop-1-upkeep", "namespace": name}
        for kind in ("RoleBinding", "ClusterRoleBinding"):
            [bound] = [one for (which, _), one in found.items() if which == kind]
            assert bound["subjects"] == [account]
            assert (bound["roleRef"]["kind"], bound["roleRef"]["name"]) in found
    assert not {key for key in first if key[0] in OF_THE_CLUSTER} & second.keys()
    other = Service("other")

    async def find(value: str) -> str:
        return value

    other.stage(replicas=2, idempotent=True)(find)
    assert not objects(deployed(shop("find"))).keys() & objects(deployed(other)).keys()


def test_generated_maps_are_in_the_namespace_too() -> None:
    files = kubernetes_files(deployed(shop("find"), managed={"find"}, namespace="east"), made_by="")
    made = yaml.safe_load(files["kustomization.yaml"])["configMapGenerator"]
    assert {one["namespace"] for one in made} == {"east"}
    assert "--namespace east" in files["kustomization.yaml"]


def test_a_policy_limits_the_account_of_the_upkeep_to_what_it_does() -> None:
    found = objects(deployed(shop("find", "show"), managed={"find"}, namespace="east"))
    policy = found["ValidatingAdmissionPolicy", "east-shop-1-upkeep"]["spec"]
    binding = found["ValidatingAdmissionPolicyBinding", "east-shop-1-upkeep"]["spec"]
    assert binding == {"policyName": "east-shop-1-upkeep", "validationActions": ["Deny"]}
    assert policy["failurePolicy"] == "Fail"
    [condition] = policy["matchConditions"]
    assert (
        condition["expression"] == "request.userInfo.username == 'system:serviceaccount:east:shop-1-upkeep'"
    )
    [rule] = policy["matchConstraints"]["resourceRules"]
    rights = [one for one in found["Role", "shop-1-upkeep"]["rules"] if "patch" in one["verbs"]]
    patched = {name for one in rights for name in one["resources"] if name.startswith("pods")}
    assert set(rule["resources"]) == patched
    text = " ".join(one["expression"] for one in policy["validations"])
    for kept in ("image", "tolerations", "activeDeadlineSeconds", "labels", "finalizers", "ownerReferences"):
        assert f".{kept}" in text
    # What the upkeep's own patches set is not among what must stay.
    for patch in (placing("class", "n"), noting(2.0), giving_up()):
        for field in patch.get("spec", {}):
            assert f".{field}" not in text
        for note in patch.get("metadata", {}).get("annotations", {}):
            assert note.startswith("kwiken/") or f"key == '{note}'" in text


def test_every_pod_keeps_to_the_restricted_standard() -> None:
    found = objects(deployed(shop("find"), managed={"find"}))
    pods = {key: one["spec"]["template"]["spec"] for key, one in found.items() if key[0] == "Deployment"}
    assert ("Deployment", "shop-1-jaeger") in pods
    for pod in pods.values():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {kind for one in pod.get("volumes", ()) for kind in one} <= {
            *("name", "configMap", "secret", "emptyDir"),
        }
    for name in ("gateway", "find"):
        [container] = pods["Deployment", f"shop-1-{name}"]["containers"]
        assert "--otlp=http://shop-1-jaeger:4318" in container["args"]


def test_names_that_containers_cannot_have_are_refused() -> None:
    with pytest.raises(InputError, match=r"^stage 'gateway': cannot be the name of a container"):
        replicas_of(shop("gateway"), None, where="p")
    with pytest.raises(InputError, match=r"two stages or sizes would be named 'a-b'"):
        replicas_of(shop("a_b", "a__b"), None, where="p")
    with pytest.raises(InputError, match=r"^p: no workload is a stage of service 'Shop_1'"):
        replicas_of(shop("find"), placed(Service("other"), "find"), where="p")
    with pytest.raises(InputError, match=r"^p: workload 'w' is of stage 'gone', which service"):
        replicas_of(shop("find"), placed(shop("find"), "gone"), where="p")


def test_the_image_holds_pinned_dependencies_and_the_code() -> None:
    content = ImageContent(
        python="3.12", requirements="d/lock", wheels="d/wheels", code=["shop.py", "a b", "data"]
    )
    text = dockerfile(content)
    assert text.count("FROM python:3.12-slim") == 2
    assert "COPY shop.py /app/shop.py\n" in text
    assert 'COPY ["a b", "/app/a b"]\n' in text
    assert "--find-links=/build/wheels --requirement=/build/requirements.txt" in text
    assert text.rindex("USER 10001") > text.rindex("RUN ")
    assert "://" not in text
    lines = dockerignore(content).splitlines()
    assert lines[:4] == ["*", "!shop.py", "!a b", "!data"]
    assert {"**/__pycache__", "**/.*", "**/*.pem", "**/*.key"} < set(lines[4:-2])
    assert lines[-2:] == ["!d/lock", "!d/wheels"]


def health_words(found: Any) -> str:
    return str(found["healthcheck"]["test"][-1])


def test_with_tls_compose_mounts_certificates_of_both_sides() -> None:
    text = compose_files(deployed(shop("find"), tls=True, plan="{}\n"), made_by="kwiken export")[
        "compose.yaml"
    ]
    found = yaml.safe_load(text)
    gateway, stage = found["services"]["gateway"], found["services"]["find"]
    assert gateway["volumes"] == ["./plan:/etc/kwiken/plan:ro", "./tls/gateway:/etc/kwiken/tls:ro"]
    assert stage["volumes"] == ["./tls/stage:/etc/kwiken/tls:ro"]
    assert "--replica-tls-name=shop-1-stage" in gateway["command"]
    assert "--tls-cert=/etc/kwiken/tls/tls.crt" in gateway["command"]
    assert not [word for word in gateway["command"] if word.startswith("--tls-ca")]
    assert "--tls-ca=/etc/kwiken/tls/ca.crt" in stage["command"]
    for program in (health_words(gateway), health_words(stage)):
        compile(program, "health", "exec")
        assert "load_cert_chain" in program
    assert "https://127.0.0.1:8080" in text
    assert "tls" not in compose_files(deployed(shop("find")), made_by="kwiken export")["compose.yaml"]


def test_with_tls_kubernetes_mounts_secrets_and_probes_as_the_certificates_allow() -> None:
    found = objects(deployed(shop("find"), tls=True, managed={"find"}))
    pods = {
        name: found["Deployment", f"shop-1-{name}"]["spec"]["template"]["spec"]
        for name in ("gateway", "find", "upkeep")
    }
    secrets = {
        name: [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one]
        for name, pod in pods.items()
    }
    sides = {"gateway": "gateway", "find": "stage", "upkeep": "gateway"}
    assert secrets == {name: [f"shop-1-{side}-tls"] for name, side in sides.items()}
    gateway, stage, upkeep = (pod["containers"][0] for pod in pods.values())
    for container in (gateway, stage, upkeep):
        mount = {"name": "tls", "mountPath": "/etc/kwiken/tls", "readOnly": True}
        assert mount in container["volumeMounts"]
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert gateway[kind]["httpGet"]["scheme"] == "HTTPS"
        compile(stage[kind]["exec"]["command"][-1], kind, "exec")
    assert "--url=https://shop-1-gateway:8080" in upkeep["args"]
    assert {"name": "KWIKEN_TLS_CERT", "value": "/etc/kwiken/tls/tls.crt"} in upkeep["env"]
    plain = objects(deployed(shop("find"), managed={"find"}))
    assert "tls" not in str(plain).lower()

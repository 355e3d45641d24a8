"""`kwiken export SERVICE`: folders for Compose and Kubernetes, what is left alone, and options that clash."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from kwiken.allocator.workloads.profile import profiles_to_json
from tests.support.project.commands import refused, run
from tests.support.runtime.clusters import profile

TARGET = "tests.support.services.single:service"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    wheel = tmp_path / "kwiken-9.8.7-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    (tmp_path / "corner.py").write_text(
        "from kwiken import Service\n\nshop = Service('corner')\n\n\n"
        "@shop.stage(replicas=2)\nasync def serve(text: str) -> str:\n    return text\n"
    )
    return tmp_path


WHEEL = ("--wheel", "kwiken-9.8.7-py3-none-any.whl")


def test_a_folder_holds_image_and_compose_file(here: Path) -> None:
    result = run("export", "corner:shop", "--to", "compose", *WHEEL, "-o", "deploy")
    assert result.exit_code == 0, result.stderr
    assert "the image holds corner.py with what is installed here" in result.stderr
    folder = here / "deploy"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "Dockerfile",
        "Dockerfile.dockerignore",
        "compose.yaml",
        "requirements.lock",
        "locust.lock",
        "locust/locustfile.py",
        "wheels/kwiken-9.8.7-py3-none-any.whl",
        "monitoring/prometheus/prometheus.yml",
        "monitoring/prometheus/alerts.yml",
        "monitoring/grafana/datasources/prometheus.yml",
        "monitoring/grafana/dashboards/boards.yml",
        "monitoring/grafana/dashboards/grafana-board.json",
    }
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    assert compose["services"]["gateway"]["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    assert compose["services"]["serve"]["image"] == compose["services"]["gateway"]["image"]
    assert "kwiken==9.8.7\n" in (folder / "requirements.lock").read_text()
    assert "COPY corner.py /app/corner.py" in (folder / "Dockerfile").read_text()
    # The line in its header makes the same files.
    told = (folder / "compose.yaml").read_text()
    [line] = [line for line in told.splitlines() if line.startswith("# Made by: ")]
    assert run(*shlex.split(line.removeprefix("# Made by: kwiken "))).exit_code == 0
    assert (folder / "compose.yaml").read_text() == told


def test_a_dockerfile_of_the_users_own_is_left_alone(here: Path) -> None:
    (here / "Dockerfile").write_text("FROM mine\n")
    result = run("export", "corner:shop", "--to", "kubernetes", "--gateways", "100", "-o", ".")
    assert result.exit_code == 0, result.stderr
    assert next(yaml.safe_load_all((here / "gateway.yaml").read_text()))["spec"]["replicas"] == 100
    assert "left as it is: Dockerfile" in result.stderr
    assert (here / "Dockerfile").read_text() == "FROM mine\n"
    assert not (here / "requirements.lock").exists()
    assert (here / "plan.json").read_text() == "null\n"


def test_a_file_names_a_service_too(here: Path) -> None:
    result = run("export", "corner.py:shop", "--to", "compose", *WHEEL, "-o", "d")
    assert result.exit_code == 0, result.stderr
    compose = yaml.safe_load((here / "d" / "compose.yaml").read_text())
    assert compose["services"]["serve"]["command"][:2] == ["stage", "corner.py:shop"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "compose"), "a service is written to a folder; give -o DIR"),
        (("--to", "envoy", "-o", "d"), "a service goes to compose or kubernetes; envoy takes a document"),
        (("--to", "compose", "--autoscale", "-o", "d"), "--autoscale and --upkeep go with --to kubernetes"),
        (("--to", "kubernetes", "--upkeep", "-o", "d"), "--upkeep needs --nodes, --workloads and --profiles"),
        (("--to", "kubernetes", "--nodes", "n", "-o", "d"), "--nodes, --workloads and --profiles go with"),
        (("--to", "compose", "--namespace", "n", "-o", "d"), "--namespace goes with --to kubernetes"),
        (("--to", "kubernetes", "--namespace", "A'b", "-o", "d"), "no name of a namespace"),
        (
            ("--to", "kubernetes", "--upkeep", "--placement", "p", "-o", "d"),
            "an upkeep places replicas itself",
        ),
        (("--to", "compose", "--map", "m", "-o", "d"), "--map and --template go with a plan"),
        (("--to", "compose", "-o", "../d"), "must be this folder or lie below it"),
        (("--to", "compose", "-o", "d"), "package kwiken: was installed from file:.*give --wheel FILE"),
        (("--to", "compose", "--placement", "gone", "-o", "d"), "gone: there is no such file"),
    ],
)
def test_what_does_not_go_together_is_refused(here: Path, words: tuple[str, ...], message: str) -> None:
    refused(run("export", "corner:shop", *words), message)
    assert not (here / "d" / "compose.yaml").exists()


@pytest.mark.parametrize("program", ["compose", "kubernetes"])
@pytest.mark.parametrize(
    ("address", "warned"),
    [("127.0.0.1:7000", True), ("localhost:7000", True), ("[::1]:7000", True), ("rank.example:7000", False)],
)
def test_a_foreign_stage_at_a_loopback_address_is_warned_of(
    here: Path, program: str, address: str, warned: bool
) -> None:
    (here / "corner.yaml").write_text(
        "version: 1\nservice: corner\nstages:\n  - name: rank\n    remote:\n      kind: http\n"
        f"      url: http://{address}/rank\n"
    )
    (here / "d").mkdir()
    (here / "d" / "Dockerfile").write_text("FROM mine\n")
    result = run("export", "corner.yaml", "--to", program, *WHEEL, "-o", "d")
    assert result.exit_code == 0, result.stderr
    assert (f"stage 'rank' is called at {address}" in result.stderr) == warned


def test_options_of_a_service_do_not_go_with_a_document(here: Path) -> None:
    (here / "placement.json").write_text("{}")
    refused(
        run("export", "placement.json", "--to", "compose", "--gateways", "2"),
        "--gateways goes with a service",
    )


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("compose", "compose.yaml"),
        ("compose", "requirements.lock"),
        ("kubernetes", "plan.json"),
        ("kubernetes", "stages.yaml"),
    ],
)
def test_files_that_it_did_not_make_are_never_overwritten(here: Path, program: str, name: str) -> None:
    (here / name).write_text("mine\n")
    (here / "wheels").mkdir()
    (here / "wheels" / "mine-1-py3-none-any.whl").write_text("mine")
    before = sorted(here.rglob("*"))
    refused(
        run("export", "corner:shop", "--to", program, *WHEEL, "-o", "."),
        f"{name}: exists, and kwiken export did not make it",
    )
    assert (here / name).read_text() == "mine\n"
    assert sorted(path for path in here.rglob("*") if "__pycache__" not in path.parts) == before
    (here / name).unlink()
    for _ in range(2):  # its own files it does overwrite, and foreign wheels stay the first time
        assert run("export", "corner:shop", "--to", program, *WHEEL, "-o", ".").exit_code == 0


def test_wheels_of_others_stay(here: Path) -> None:
    (here / "wheels").mkdir()
    (here / "wheels" / "mine-1-py3-none-any.whl").write_text("mine")
    assert run("export", "corner:shop", "--to", "compose", *WHEEL, "-o", ".").exit_code == 0
    assert (here / "wheels" / "mine-1-py3-none-any.whl").read_text() == "mine"


def test_a_secret_is_not_sent_to_the_builder(here: Path) -> None:
    refused(
        run("export", "corner:shop", "--to", "compose", *WHEEL, "--include", ".env", "-o", "d"),
        r"\.env: there is no such file",
    )
    (here / ".env").write_text("SECRET=1\n")
    refused(
        run("export", "corner:shop", "--to", "compose", *WHEEL, "--include", ".env", "-o", "d"),
        r"--include \.env: is hidden or a key",
    )
    assert run("export", "corner:shop", "--to", "compose", *WHEEL, "-o", "d").exit_code == 0
    assert "**/.*\n" in (here / "d" / "Dockerfile.dockerignore").read_text()


def test_names_that_are_too_long_or_taken_are_refused(here: Path) -> None:
    text = (here / "corner.py").read_text()
    (here / "long.py").write_text(text.replace("'corner'", f"'{'c' * 50}'").replace("serve(", f"{'s' * 30}("))
    refused(
        run("export", "long:shop", "--to", "kubernetes", *WHEEL, "-o", "d"),
        "allows 63 characters, and has 81",
    )
    (here / "taken.py").write_text(text.replace("serve(", "gateway_2("))
    refused(
        run("export", "taken:shop", "--to", "compose", *WHEEL, "--gateways", "2", "-o", "d"),
        "stage 'gateway_2': cannot be the name of a container",
    )
    assert not (here / "d").exists()


CLASSES = '{ name = "quick", cores = 2, memory_gb = 2, speed = 1.0 }'
WORKLOAD = """
[[workloads]]
name = "corner/serve"
memory_gb = 0.1
service = "corner"
stage = "serve"
target = { rate_per_s = 60, p99_ms = 15 }
"""


def documents(here: Path, *, classes: str = CLASSES, workloads: str = WORKLOAD) -> list[str]:
    """Options of an upkeep, with documents in files."""
    known = profile({0.5: 50.0, 1: 100.0}, {"quick": 1.0}, name="corner/serve")
    texts = {
        "nodes.toml": f'classes = [{classes}]\nnodes = [{{ name = "a", class = "quick" }}]\n',
        "workloads.toml": workloads,
        "profiles.json": profiles_to_json((known,)),
    }
    for name, text in texts.items():
        (here / name).write_text(text)
    return [word for name in texts for word in (f"--{name.partition('.')[0]}", name)]


def test_pods_of_the_stages_that_an_upkeep_keeps_wait_for_it_and_no_others(here: Path) -> None:
    with (here / "corner.py").open("a") as code:
        code.write("\n\n@shop.stage(after=[serve])\nasync def bill(text: str) -> str:\n    return text\n")
    words = ("--to", "kubernetes", "--upkeep", *documents(here), *WHEEL, "-o", "d")
    result = run("export", "corner:shop", *words)
    assert result.exit_code == 0, result.stderr
    gated = set()
    for path in (here / "d").glob("*.yaml"):
        for found in yaml.safe_load_all(path.read_text()):
            if found["kind"] == "Deployment" and "schedulingGates" in found["spec"]["template"]["spec"]:
                gated.add(found["metadata"]["name"])
    assert gated == {"corner-serve"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"classes": f'{CLASSES}, {{ name = "slow", cores = 2, memory_gb = 2 }}'},
            r"nodes\.toml: classes\[1\]\.speed: is missing",
        ),
        ({"classes": '{ name = "quick", cores = 2 }'}, r"nodes\.toml: .*memory_gb"),
        ({"workloads": WORKLOAD.replace('stage = "serve"', 'stage = "gone"')}, "is for stage 'gone'"),
        (
            {
                "workloads": WORKLOAD
                + '\n[[workloads]]\nname = "other"\nmemory_gb = 0.1\nbest_effort = true\n'
            },
            r"profiles\.json: has no profile of 'other'|best-effort",
        ),
    ],
)
def test_an_export_takes_no_document_that_the_upkeep_refuses(
    here: Path, changes: dict[str, str], message: str
) -> None:
    words = ("--to", "kubernetes", "--upkeep", *documents(here, **changes), *WHEEL, "-o", "d")
    refused(run("export", "corner:shop", *words), message)
    assert not (here / "d" / "kustomization.yaml").exists()


def test_each_stage_is_scaled_by_the_upkeep_or_by_processor_use(here: Path) -> None:
    (here / "pair.py").write_text(
        "from kwiken import Service\n\nshop = Service('corner')\n\n\n"
        "@shop.stage(replicas=2)\nasync def serve(text: str) -> str:\n    return text\n\n\n"
        "@shop.stage(replicas=2, after=[serve])\nasync def wrap(text: str) -> str:\n    return text\n"
    )
    words = ("--to", "kubernetes", "--upkeep", "--autoscale", *documents(here), *WHEEL, "-o", "d")
    result = run("export", "pair:shop", *words)
    assert result.exit_code == 0, result.stderr
    assert "the upkeep scales serve; processor use, wrap" in result.stderr
    scalers = list(yaml.safe_load_all((here / "d" / "autoscale.yaml").read_text()))
    assert [one["spec"]["scaleTargetRef"]["name"] for one in scalers] == ["corner-wrap"]
    stages = yaml.safe_load_all((here / "d" / "stages.yaml").read_text())
    counted = {
        one["metadata"]["name"] for one in stages if one["kind"] == "Deployment" and "replicas" in one["spec"]
    }
    assert counted == {"corner-serve"}

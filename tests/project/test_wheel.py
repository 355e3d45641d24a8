"""The wheel in empty environments, outside of the repository: what the pages show works there, core and extras."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwiken.cli.live.demo import NO_RESULT
from tests.support.project.commands import one_refusal
from tests.support.runtime.server_processes import free_port

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 300.0  # bounds one command; the slowest takes half a minute on an idle machine
TRIES = 3  # of a demo that other programs on the machine disturb
LOAD_S = 4  # the pages' loads last longer than a test needs
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(importlib.util.find_spec("uv") is None, reason="uv builds the environments"),
]


class Environment:
    """A virtual environment, and how commands run in it: without a trace of the repository."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.bin = folder / "bin"
        hidden = {"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
        self.env = {name: value for name, value in os.environ.items() if name not in hidden}
        others = (
            part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != Path(sys.prefix) / "bin"
        )
        self.env["PATH"] = os.pathsep.join([str(self.bin), *others])
        self.env["KWIKEN_CACHE"] = str(cache)

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """One command, which may fail."""
        return subprocess.run(
            words,
            cwd=cwd,
            env=self.env,
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )

    def ok(self, *words: str, cwd: Path) -> str:
        """What a command that succeeds prints."""
        done = self.run(*words, cwd=cwd)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def script(self, text: str, cwd: Path) -> str:
        """What a shell prints for a script, every line of which succeeds."""
        return self.ok("bash", "-euo", "pipefail", "-c", text, cwd=cwd)

    @contextlib.contextmanager
    def server(self, *words: str, cwd: Path) -> Iterator[str]:
        """The address of a server for as long as the block runs; it ends in good order afterwards."""
        process = subprocess.Popen(words, cwd=cwd, env=self.env, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            address = re.search(r" at (http://\S+)$", said.strip())
            assert address is not None, said + process.stderr.read()
            yield address[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=RUN_S) == 0
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=RUN_S)
    [path] = folder.glob("*.whl")
    return path


def installed(folder: Path, wheel: Path, extras: str, cache: Path) -> Environment:
    """An empty environment with the wheel in it, and what is locked for these extras."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    locked = folder / "locked.txt"
    export = [
        "export",
        "--frozen",
        "--no-dev",
        "--all-extras",
        "--no-emit-project",
        "--no-hashes",
        "-o",
        str(locked),
    ]
    place = folder / "venv"
    install = [
        "pip",
        "install",
        "--python",
        str(place),
        "-c",
        str(locked),
        f"kwiken{extras} @ {wheel.as_uri()}",
    ]
    for words in (export, ["venv", "--python", sys.executable, str(place)], install):
        subprocess.run([*uv, *words], cwd=ROOT, check=True, timeout=RUN_S)
    return Environment(place, cache)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory, wheel: Path, search_cache: Path) -> Environment:
    return installed(tmp_path_factory.mktemp("core"), wheel, "", search_cache)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, wheel: Path, search_cache: Path) -> Environment:
    return installed(tmp_path_factory.mktemp("whole"), wheel, "[all]", search_cache)


def post(url: str, body: object) -> object:
    request = urllib.request.Request(
        f"{url}/v1/request", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def blocks(page: str, title: str = "", *, language: str) -> list[str]:
    """Fenced blocks of a page, or of one section of it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if title:
        text = re.split(r"^#+ ", text.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if name == language]


def moved(script: str) -> str:
    """A page's script on a free port, and with less load."""
    port = free_port()
    short = re.sub(r"--duration \d+", f"--duration {LOAD_S}", script)
    named = re.sub(r"^(kwiken up (?!.*--port)\S+)", r"\1 --port 8080", short, flags=re.MULTILINE)
    return re.sub(r"(127\.0\.0\.1:|--port )80\d\d\b", rf"\g<1>{port}", named)


def test_the_command_is_there_and_comes_from_the_wheel(core: Environment, tmp_path: Path) -> None:
    assert "Learn and plan:" in core.ok("kwiken", "--help", cwd=tmp_path)
    where = core.ok("python", "-c", "import kwiken; print(kwiken.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(core.bin.parent)
    installed_names = core.ok(
        "python", "-c", "import importlib.metadata as m; print(*m.packages_distributions())", cwd=tmp_path
    )
    assert not {"locust", "gevent", "numpy", "scipy", "pytest", "flask", "opentelemetry", "jinja2"} & set(
        installed_names.split()
    )


def example(folder: Path) -> str:
    """The example service as a file in a folder, as a builder has it; returns its target."""
    shutil.copy(ROOT / "services" / "hello.py", folder)
    return "hello.py:hello"


def test_the_core_runs_a_local_cluster(core: Environment, tmp_path: Path) -> None:
    target = example(tmp_path)
    try:
        url = core.ok("kwiken", "up", target, "--port", "0", "--detach", "--traces", "traces", cwd=tmp_path)
        assert "ada" in json.dumps(post(url.strip(), {"name": "ada"})).lower()
        assert "greet" in core.ok("kwiken", "status", cwd=tmp_path)
    finally:
        core.ok("kwiken", "down", cwd=tmp_path)
    assert list(tmp_path.glob("traces/*"))


def test_the_core_runs_stages_and_a_gateway_by_hand(core: Environment, tmp_path: Path) -> None:
    target = example(tmp_path)
    with contextlib.ExitStack() as stack:
        replicas = []
        for stage in ("tidy", "greet", "join"):
            url = stack.enter_context(core.server("kwiken", "stage", target, "--stage", stage, cwd=tmp_path))
            replicas += ["--replica", f"{stage}={url.removeprefix('http://')}"]
        gateway = stack.enter_context(
            core.server("kwiken", "serve", target, "--port", "0", *replicas, cwd=tmp_path)
        )
        assert "ada" in json.dumps(post(gateway, {"name": "ada"})).lower()


def test_the_core_has_the_search_service(core: Environment, tmp_path: Path) -> None:
    core.ok(
        "python", "-m", "kwiken.services.search", "queries", "-n", "50", "-o", "queries.txt", cwd=tmp_path
    )
    assert len((tmp_path / "queries.txt").read_text().splitlines()) == 50


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("load http://127.0.0.1:9", "load"),
        ("fit traces -o profile.json", "plan"),
        ("report profile.json", "report"),
        ("demo", "load,report"),
        ("serve hello.py:hello --local --otlp http://127.0.0.1:9", "otel"),
    ],
)
def test_the_core_names_the_extra_that_a_verb_needs(
    core: Environment, tmp_path: Path, line: str, extra: str
) -> None:
    example(tmp_path)
    done = core.run("kwiken", *line.split(), cwd=tmp_path)
    assert done.returncode == 2
    one_refusal(done.stderr, rf'needs .*: pip install "kwiken\[{extra}\]"$')


def test_a_shell_completes_verbs_and_options(core: Environment, tmp_path: Path) -> None:
    [line] = re.findall(
        r"^eval .*_KWIKEN_COMPLETE=bash_source.*$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    ask = 'COMP_WORDS=(kwiken lo); COMP_CWORD=1; _kwiken_completion kwiken; echo "${COMPREPLY[@]}"'
    assert core.script(f"{line}\n{ask}\n", tmp_path).split() == ["load"]


def test_the_demo_and_the_readmes_commands_on_its_output(whole: Environment, tmp_path: Path) -> None:
    for _ in range(TRIES):
        command = ("kwiken", "demo", "--seconds", "30", "--rate", "10", "--out", "demo-out")
        done = whole.run(*command, cwd=tmp_path)
        if done.returncode != NO_RESULT:  # else what runs beside the tests took the processors
            break
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo-out" / "report.html").stat().st_size
    for block in blocks("README.md", "You have a slow service, and traces of it", language=""):
        whole.script(block, tmp_path)
    for page in ("advice.html", "report.html"):
        assert "<svg" in (tmp_path / page).read_text(encoding="utf-8")
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    (tmp_path / "map.json").write_text(json.dumps({stage: f"/{stage}" for stage in plan["stages"]}))
    whole.ok("kwiken", "export", "plan.json", "--to", "envoy", "--map", "map.json", cwd=tmp_path)


@pytest.mark.parametrize("title", ["You build a service", "You operate services"])
def test_the_readmes_samples_for_builders_and_operators(
    whole: Environment, tmp_path: Path, title: str
) -> None:
    [block] = blocks("README.md", title, language="")
    shutil.copytree(ROOT / "services", tmp_path / "services")
    try:
        whole.script(moved(block), tmp_path)
    finally:
        whole.run("kwiken", "down", cwd=tmp_path)  # where the script did not come to it


def test_the_service_in_the_readme_is_one(core: Environment, tmp_path: Path) -> None:
    [block] = blocks("README.md", "You build a service", language="python")
    (tmp_path / "sample.py").write_text(f"{block}\n\nhello.check()\n", encoding="utf-8")
    core.ok("python", "sample.py", cwd=tmp_path)


def test_the_tutorial(whole: Environment, tmp_path: Path) -> None:
    script = [block for block in blocks("docs/start/tutorial.md", language="bash") if ".venv" not in block]
    try:
        said = whole.script(moved("\n".join(script)), tmp_path)
    finally:
        whole.run("kwiken", "down", "--state", "state", cwd=tmp_path)
    assert "price" in said
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")

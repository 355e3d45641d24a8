"""The container image: what it adds to its base, and that its processes start as `compose.yaml` runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "kwiken:test"
MAX_ADDED_BYTES = 150_000_000
BUILD_S = 1200.0
HARDENED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges:true")

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]


def docker(*words: str, within_s: float = 120.0) -> str:
    """What a command of Docker that succeeds prints."""
    done = subprocess.run(
        ["docker", *words], cwd=ROOT, capture_output=True, text=True, timeout=within_s, check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """Name of the base image, with the image built on it."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False).returncode
    ):
        pytest.skip("no Docker engine answers: start one, or name it by $DOCKER_HOST")
    *_, base = re.findall(
        r"^FROM (\S+)", (ROOT / "runtime" / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE
    )
    docker("build", "--quiet", f"--tag={IMAGE}", ".", within_s=BUILD_S)
    yield str(base)
    docker("image", "rm", IMAGE)


def test_the_image_adds_little_to_its_base(base: str) -> None:
    ours, theirs = (int(docker("image", "inspect", "--format={{.Size}}", name)) for name in (IMAGE, base))
    assert 0 < ours - theirs <= MAX_ADDED_BYTES


def test_a_hardened_container_answers(base: str) -> None:
    name = docker(
        "run",
        "--detach",
        *HARDENED,
        IMAGE,
        "serve",
        "kwiken.services.search:search",
        "--local",
        "--port=8080",
    ).strip()
    asked = (
        "import json, time, urllib.request as u\n"
        "for _ in range(600):\n"
        "    try:\n"
        "        u.urlopen('http://127.0.0.1:8080/readyz'); break\n"
        "    except OSError:\n"
        "        time.sleep(0.1)\n"
        "ask = u.Request('http://127.0.0.1:8080/v1/request', b'{\"query\": \"asyncio gather\"}',"
        " {'Content-Type': 'application/json'})\n"
        "print(u.urlopen(ask, timeout=60).read().decode())\n"
    )
    try:
        answer = json.loads(docker("exec", name, "python", "-c", asked))
        assert "asyncio.gather" in json.dumps(answer)
        assert docker("exec", name, "id", "-u").strip() != "0"
    finally:
        docker("rm", "--force", name)

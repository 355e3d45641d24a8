"""An own service from an empty folder with a wheel, by the commands of the guide, with a real Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kwiken.export.deployments.deployment import JAEGER_IMAGE
from kwiken.export.deployments.monitoring import GRAFANA_IMAGE, PROMETHEUS_IMAGE

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "operate" / "deploy.md").read_text(encoding="utf-8")
BESIDE = (JAEGER_IMAGE, PROMETHEUS_IMAGE, GRAFANA_IMAGE)

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1500)]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def ran(*words: str, where: Path, within_s: float = 1200.0) -> str:
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=within_s, check=False)
    assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def answers(*words: str) -> bool:
    return not subprocess.run(["docker", *words], capture_output=True, timeout=60, check=False).returncode


def test_ten_commands_lead_to_a_plan_in_force(tmp_path: Path) -> None:
    if shutil.which("docker") is None or not answers("info") or not answers("compose", "version"):
        pytest.skip("no Docker engine with Compose answers: start one, or name it by $DOCKER_HOST")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not answers("image", "inspect", f"python:{version}-slim", *BESIDE):
        pytest.skip(f"the engine lacks python:{version}-slim or one of {', '.join(BESIDE)}")
    ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), where=ROOT)
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    commands = blocks("sh")[0].strip().splitlines()
    assert len(commands) == 10
    script = "set -e\n" + "\n".join(commands)
    try:
        told = ran("bash", "-c", script, where=tmp_path)
    finally:
        subprocess.run(
            ["docker", "compose", "-f", "deploy/compose.yaml", "down", "--rmi", "local", "--timeout", "5"],
            cwd=tmp_path,
            env={**os.environ, "KWIKEN_TOKEN": ""},
            capture_output=True,
            timeout=300,
            check=False,
        )
    assert re.search(r"^plan [0-9a-f]{12}$", told, re.MULTILINE), told[-3000:]
    assert re.search(r"^[1-9]\d* +│ +0 │", told, re.MULTILINE), told[-3000:]  # requests, of which failed none

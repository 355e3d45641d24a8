"""Python samples of the documents run as they stand."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.profile import Profile
from kwiken.model.service.stage import Reissue
from tests.support.models.profiles import small_profile

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLAN = Plan(
    version=1,
    service="hello",
    created="2024-01-01T00:00:00Z",
    profile="sha256:0",
    budgets=Budgets(reissue=0.05),
    cost=Costs(model="calls", stages={"tidy": 0.25, "greet": 0.5, "join": 0.25}),
    stages={"greet": StagePlan(reissue=Reissue(after_ms=20.0, fraction=0.05))},
)
SLOW = {"docs/allocate/sizing.md-1"}
SAMPLES = [
    (f"{page.relative_to(ROOT)}-{number}", block)
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
]


def measured_profile() -> Profile:
    """A profile whose replicas and busy times are known, so that samples may plan for a load."""
    profile = small_profile(200)
    stages = tuple(
        dataclasses.replace(stage, replicas=2, busy_ms=2.0, busy_variation=1.0) for stage in profile.stages
    )
    return dataclasses.replace(profile, stages=stages)


def test_there_are_samples() -> None:
    assert {name for name, _ in SAMPLES} >= {
        "README.md-1",
        "docs/reference/settings.md-1",
        "docs/operate/running.md-1",
        "docs/build/testing.md-1",
    }


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, code in SAMPLES],
)
def test_a_sample_runs(code: str, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(profile_to_json(measured_profile()), encoding="utf-8")
    (tmp_path / "plan.json").write_text(PLAN.to_json(), encoding="utf-8")
    shutil.copy(ROOT / "services" / "hello.py", tmp_path)
    (tmp_path / "sample.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "sample.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr

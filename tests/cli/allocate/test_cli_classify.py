"""`kwiken classify`: the example as an operator runs it, earlier profiles, and one line for each wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwiken.allocator.workloads.profile import profiles_from_json
from tests.support.project.commands import refused, run

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "allocator" / "measurements.toml"


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("classify") / "workloads-profile.json"
    result = run("classify", str(EXAMPLE), "-o", str(out), "--explain")
    assert result.exit_code == 0, result.stderr
    assert "by replicas: " in result.stdout
    assert "removes" in result.stdout
    assert "taken as harmless, because nobody measured them: cpu-fp" in result.stdout
    assert result.stderr.endswith(f"written to {out}\n")
    return out


def test_the_example_is_classified(profiles: Path) -> None:
    lookup, snippets = profiles_from_json(profiles.read_text(), where="p")
    assert (lookup.name, snippets.name) == ("look-up", "snippets")
    assert lookup.base == pytest.approx(69.56, rel=0.01)
    small = lookup.classes.index("small")
    assert lookup.het.mean[small] == pytest.approx(-1.204, abs=0.01)  # log(20.86 / 69.56)
    assert all(0 < deviation < 1 for deviation in lookup.up.deviation[[0, 1, 4, 5, 6, 7]])


def test_nothing_is_written_without_an_output_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("classify", str(EXAMPLE))
    assert result.exit_code == 0, result.stderr
    assert result.stderr.endswith("not written: give -o FILE to keep it\n")
    assert not list(tmp_path.iterdir())


def test_json_has_methods_errors_and_what_to_measure_next() -> None:
    result = run("classify", str(EXAMPLE), "--json")
    assert result.exit_code == 0, result.stderr
    lookup, _ = json.loads(result.stdout)["workloads"]
    assert set(lookup["methods"]) == {"size", "replicas", "class", "tolerated", "caused"}
    for method in lookup["methods"].values():
        assert method["held_out_error"] == min(method["errors"].values())
    shares = [proposal["share"] for proposal in lookup["measure_next"] if proposal["kind"] != "source"]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 3


def test_the_document_goes_to_stdout_alone(profiles: Path) -> None:
    result = run("classify", str(EXAMPLE), "-o", "-")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == profiles.read_text()
    assert "look-up" in result.stderr


def test_a_program_that_was_seen_needs_no_measurements(profiles: Path, tmp_path: Path) -> None:
    head, _, _ = EXAMPLE.read_text().partition("[[workloads]]")
    new = tmp_path / "new.toml"
    new.write_text(f'{head}[[workloads]]\nname = "again"\nmeasure = "rate"\nidentity = "sha256:0c5e"\n')
    refused(
        run("classify", str(new)), r"workload 'again': needs 2 or more measurements by size, not 0; measure"
    )
    result = run("classify", str(new), "--known", str(profiles), "--explain")
    assert result.exit_code == 0, result.stderr
    assert "known by its identity from an earlier classification" in result.stdout
    found = run("classify", str(new), "--known", str(profiles), "--json")
    assert json.loads(found.stdout)["workloads"][0]["known_before"] is True


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            "performance = 69.56",
            "performance = nan",
            r"m.toml: workloads\[0\].runs\[0\].performance: must be",
        ),
        (
            "performance = 69.56",
            "performance = -5",
            r"runs\[0\].performance: must be from 1e-12 to 1e\+18, not -5",
        ),
        (
            'class = "small", p',
            'class = "tiny", p',
            r"runs\[3\]: no class 'tiny' in the history; it has 'large'",
        ),
        (
            'class = "small", p',
            "replicas = 16, p",
            "workload 'look-up': needs 2 or more measurements by node class",
        ),
        ("disk = 0.45", "disc = 0.45", r"workloads\[0\].tolerated: no source 'disc'; known: cpu-int"),
        ("disk = 0.45, ", "", "needs 2 or more measurements of tolerated pressure, not 1; measure .* next"),
        ("version = 1", "version = ", "m.toml: broken TOML: "),
    ],
)
def test_wrong_measurements_are_one_line(before: str, after: str, told: str, tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    assert before in text
    file = tmp_path / "m.toml"
    file.write_text(text.replace(before, after, 1))
    refused(run("classify", str(file)), told)


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    refused(run("classify", str(tmp_path / "none.toml")), "none.toml: there is no such file")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    refused(run("classify", str(EXAMPLE), "--known", str(broken)), "broken.json:1: broken JSON")
    refused(run("classify", str(broken)), "broken.json:1: broken JSON")
    refused(
        run("classify", str(EXAMPLE), "-o", "-", "--json"), "--json: is written to stdout too; give -o FILE"
    )


def test_targets_decide_what_to_measure_next(tmp_path: Path) -> None:
    table = '[[workloads]]\nname = "look-up"\nmemory_gb = 2\ntarget = {{ {} }}\n'
    found = []
    for rate in (40, 2000):
        file = tmp_path / f"{rate}.toml"
        file.write_text(table.format(f"p99_ms = 50, rate_per_s = {rate}"))
        result = run("classify", str(EXAMPLE), "--targets", str(file), "--json")
        assert result.exit_code == 0, result.stderr
        found.append(json.loads(result.stdout)["workloads"][0]["measure_next"])
    assert found[0] != found[1]
    other = tmp_path / "other.toml"
    other.write_text(table.format("completion_s = 60"))
    told = "other.toml: workload 'look-up' has a target of completions, and is measured as rate"
    refused(run("classify", str(EXAMPLE), "--targets", str(other)), told)


@pytest.mark.parametrize("method", ["nearest", "gaussian"])
def test_a_method_can_be_named_and_its_neighbours_are_told(method: str) -> None:
    result = run("classify", str(EXAMPLE), "--method", method, "--explain", "--json")
    assert result.exit_code == 0, result.stderr
    lookup, _ = json.loads(result.stdout)["workloads"]
    for found in lookup["methods"].values():
        assert ("median of" in found["method"]) == (method == "nearest")
        assert found["neighbours"]["used"] == (method == "nearest")
        assert found["neighbours"]["nearest"]
    shown = run("classify", str(EXAMPLE), "--method", method, "--explain").stdout
    assert "nearest" in shown
    assert "they disagree most at " in shown


def test_an_unknown_method_is_refused() -> None:
    refused(run("classify", str(EXAMPLE), "--method", "closest"), "'closest' is not one of 'nearest'")

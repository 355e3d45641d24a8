"""One run of a job on a worker of its own becomes a job that can be predicted; what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwiken.apps.batch_run.dask_jobs import DaskJobs
from kwiken.apps.batch_run.profiling import profile_job, sample_bytes
from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJobs
from kwiken.batch.jobs.replay.predictor import Predictor
from kwiken.cli.verbs import kwiken

pytest.importorskip("distributed")

MODULE = """
from pathlib import Path

from dask import delayed


def size_of(path):
    return len(Path(path).read_bytes())


def sizes(path):
    return [delayed(size_of)(str(one)) for one in sorted(Path(path).iterdir())]


def total(parts):
    return delayed(sum)(parts)


def broken(path):
    return delayed(size_of)(path + "-none")


def leaves():
    raise SystemExit(3)


JOBS = {
    "total": total, "broken": broken, "plain": lambda: delayed(sum)([1, 2]), "number": lambda: 3, "leaves": leaves,
    "several": lambda: [delayed(sum)([1]), delayed(sum)([2, 3])],
}
DATA = {"total": lambda path: delayed(list)(sizes(path))}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "profiled_jobs.py").write_text(MODULE)
    (tmp_path / "data").mkdir()
    for number in range(4):
        (tmp_path / "data" / str(number)).write_bytes(bytes(1000))
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("profiled_jobs", None)


def profile(*words: str) -> Result:
    return CliRunner().invoke(kwiken, ["batch", "profile", *words])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_on_one_worker_becomes_a_job(folder: Path) -> None:
    found = profile("profiled_jobs:total", "--sample", "data", "-o", "jobs.json")
    assert found.exit_code == 0, found.output
    for told in ("total", "4.0 kB read", "written to jobs.json"):
        assert told in found.output
    (job,) = BatchJobs.from_json((folder / "jobs.json").read_text(), where="jobs.json").jobs
    assert (job.name, job.n_executors, job.slots, job.bytes.read) == ("total", 1, 1, 4000)
    assert sorted(len(stage.tasks) for stage in job.stages) == [1, 1, 4]
    assert Predictor([job]).at(2).total_ms > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_job_that_fails_is_told(folder: Path) -> None:
    found = profile("profiled_jobs:broken", "--sample", "data", "-o", "jobs.json")
    assert found.exit_code == 2
    assert "the job has failed: FileNotFoundError" in found.stderr
    assert not (folder / "jobs.json").exists()
    assert "Traceback" not in found.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_a_function_returns(folder: Path) -> None:
    assert folder.exists()
    several = profile("profiled_jobs:several", "--json")
    assert several.exit_code == 0, several.stderr
    number = profile("profiled_jobs:number")
    assert (number.exit_code, "has returned no collection of Dask" in number.stderr) == (2, True)
    leaves = profile("profiled_jobs:leaves")
    assert (leaves.exit_code, "the job has failed: SystemExit: 3" in leaves.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("profiled_jobs",), "write MODULE:JOB"),
        (
            ("profiled_jobs:none",),
            "no job of this name; known: broken, leaves, number, plain, several, total",
        ),
        (("profiled_jobs:broken",), "name one by --sample"),
        (("profiled_jobs:plain", "--sample", "data"), "leave --sample out"),
        (("profiled_jobs:total", "--sample", "nothing"), "no such file or folder"),
        (("no_such_module:job",), "cannot be imported"),
        (("profiled_jobs.py:total",), "as Python imports it"),
        ((".profiled_jobs:total",), "as Python imports it"),
        (("leaving:job",), "cannot be imported: SystemExit: 5"),
        (("numbered:1",), "JOBS must be a mapping from the name of a job"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], told: str, folder: Path) -> None:
    (folder / "leaving.py").write_text("raise SystemExit(5)\n")
    (folder / "numbered.py").write_text("JOBS = {1: print}\n")
    found = profile(*words)
    assert found.exit_code == 2
    assert told in found.stderr


def test_bytes_of_samples(folder: Path) -> None:
    assert sample_bytes(str(folder / "data")) == 4000
    assert sample_bytes(str(folder / "data" / "0")) == 1000
    (folder / "data" / "again").symlink_to(folder / "data")
    assert sample_bytes(str(folder / "data")) == 4000
    (folder / "none").mkdir()
    with pytest.raises(InputError, match="holds no bytes"):
        sample_bytes(str(folder / "none"))


async def test_a_job_without_a_function_is_refused() -> None:
    with pytest.raises(InputError, match="no job of this name"):
        await profile_job(DaskJobs({}, {}), "one", None, 1, lambda _: None)

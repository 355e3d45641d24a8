from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kwiken.base.machine.processor_use import ProcessorUse, Reading, use_between
from kwiken.base.machine.reading import processors_given, read_processors

linux = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux's /proc")
SECONDS = st.floats(0, 1e4)


def reading(at_s: float = 0.0, **figures: object) -> Reading:
    plain = {"processors": 2, "quota": math.inf, "busy_s": 0.0, "stolen_s": 0.0}
    return Reading(at_s=at_s, **(plain | figures))  # type: ignore[arg-type]


def test_use_by_hand() -> None:
    first = reading(10.0, busy_s=100.0, stolen_s=5.0, own_s={1: 7.0, 2: 1.0, 3: 9.0})
    last = reading(20.0, busy_s=112.0, stolen_s=7.0, own_s={1: 11.0, 2: 2.0, 4: 50.0}, waited_s={1: 3.0})
    use = use_between(first, last)
    assert use.own == pytest.approx(0.5)
    assert use.by_process == pytest.approx({1: 0.4, 2: 0.1})
    assert use.others == pytest.approx(0.7)
    assert use.stolen == pytest.approx(0.2)
    assert use.taken == pytest.approx(0.9)
    assert use.given == pytest.approx(1.1)
    assert use.share == pytest.approx(0.5 / 1.1)
    assert use.waiting is None  # the first reading knows no waits


def test_waits_are_told_in_running_times() -> None:
    first = reading(0.0, own_s={1: 1.0, 2: 1.0, 3: 0.0}, waited_s={1: 0.0, 2: 5.0})
    last = reading(1.0, own_s={1: 2.0, 2: 2.0, 3: 9.0}, waited_s={1: 1.0, 2: 7.0})
    assert use_between(first, last).waiting == pytest.approx(1.5)


def test_others_leave_a_fair_part_and_a_quota_bounds_all() -> None:
    busy = reading(1.0, busy_s=2.0)
    assert use_between(reading(), busy).given == pytest.approx(2 / 3)
    assert use_between(reading(), reading(1.0, busy_s=2.0, quota=0.5)).given == pytest.approx(0.5)
    stolen = reading(1.0, stolen_s=1.4, busy_s=0.6)
    assert use_between(reading(), stolen).given == pytest.approx(0.2)


def test_throttling_is_a_share_of_the_periods() -> None:
    first, last = reading(periods=100, throttled=40), reading(1.0, periods=110, throttled=43)
    assert use_between(first, last).throttled == pytest.approx(0.3)
    assert use_between(first, first).throttled == 0.0


@given(
    length=st.floats(0, 1e4),
    busy=SECONDS,
    stolen=SECONDS,
    own=st.dictionaries(st.integers(1, 9), SECONDS),
    quota=st.one_of(st.just(math.inf), st.floats(0.001, 64)),
    processors=st.integers(1, 256),
)
def test_figures_stay_in_their_bounds_whatever_the_counters_say(
    length: float, busy: float, stolen: float, own: dict[int, float], quota: float, processors: int
) -> None:
    first = reading(processors=processors, quota=quota, own_s=dict.fromkeys(own, 0.0))
    last = reading(length, processors=processors, quota=quota, busy_s=busy, stolen_s=stolen, own_s=own)
    use = use_between(first, last)
    assert 0 < use.given <= max(processors, 0.01)
    assert use.given <= max(quota, 0.01)
    assert use.own == pytest.approx(sum(use.by_process.values()))
    assert min(use.own, use.others, use.stolen, use.share) >= 0


def system(root: Path, *, stat: str = "", group: str = "", files: dict[str, str] | None = None) -> Path:
    """A file system with these files below it; every processor that this process may use is in /proc/stat."""
    numbers = (
        sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    lines = stat or "".join(f"cpu{number} 100 20 30 400 50 6 7 8 9 10\n" for number in numbers)
    told = {"proc/stat": lines, "proc/self/cgroup": group} | (files or {})
    for name, text in told.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


STAT = "42 (a) b) c) S " + " ".join(str(number) for number in range(1, 30))


def test_counters_of_the_processors_are_read(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    found = read_processors([42, 43], root=system(tmp_path, files={"proc/42/stat": STAT}))
    assert found is not None
    assert found.busy_s == pytest.approx(found.processors * (100 + 20 + 30 + 6 + 7) / tick)
    assert found.stolen_s == pytest.approx(found.processors * 8 / tick)
    assert found.own_s == {42: (11 + 12) / tick}
    assert found.waited_s == {}
    assert found.quota == math.inf


def test_the_schedulers_account_of_all_threads_is_finer_than_ticks(tmp_path: Path) -> None:
    threads = {"42": "3000000000 500000000 7", "44": "5000000 1000000 3", "45": "", "46": "x y z"}
    files = {f"proc/42/task/{thread}/schedstat": text for thread, text in threads.items()}
    found = read_processors([42], root=system(tmp_path, files={"proc/42/stat": STAT, **files}))
    assert found is not None
    assert found.own_s == {42: pytest.approx(3.005)}
    assert found.waited_s == {42: pytest.approx(0.501)}


def test_processors_that_this_process_may_not_use_do_not_count(tmp_path: Path) -> None:
    root = system(tmp_path, stat="cpu 9 9 9 9 9 9 9 9\ncpu99999 100 20 30 400 50 6 7 8\n")
    found = read_processors(root=root)
    assert found is not None
    assert found.busy_s == found.stolen_s == 0.0


@pytest.mark.parametrize("stat", ["cpu0 1 2 x 4 5 6 7 8\n", "cpu0 1 2\n"])
def test_a_machine_without_readable_counters_is_told_as_such(tmp_path: Path, stat: str) -> None:
    numbers = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    root = system(tmp_path / "a", stat="".join(stat.replace("cpu0", f"cpu{number}") for number in numbers))
    assert read_processors(root=root) is None
    assert read_processors(root=tmp_path / "nothing") is None


V1 = {
    "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/a/cpu.stat": "nr_periods 80\nnr_throttled 20\nthrottled_time 123\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
}
V2 = {
    "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
    "sys/fs/cgroup/a/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/a/cpu.stat": "usage_usec 9\nnr_periods 80\nnr_throttled 20\nthrottled_usec 123\n",
}


@pytest.mark.parametrize(
    ("group", "files"),
    [("4:memory:/m\n3:cpu,cpuacct:/a/b\n0::/\n", V1), ("0::/a/b\n", V2)],
    ids=["version 1", "version 2"],
)
def test_a_quota_of_any_group_above_counts(tmp_path: Path, group: str, files: dict[str, str]) -> None:
    root = system(tmp_path, group=group, files=files)
    found = read_processors(root=root)
    assert found is not None
    assert found.quota == 0.5
    assert (found.periods, found.throttled) == (80, 20)
    assert processors_given(root=root) == 0.5


def test_a_containers_own_quota_is_found_at_the_root(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cpu.max": "25000 100000\n",
        "sys/fs/cgroup/cpu.stat": "nr_periods 4\nnr_throttled 1\n",
    }
    found = read_processors(root=system(tmp_path, group="0::/kubepods/of/the/host\n", files=files))
    assert found is not None
    assert (found.quota, found.periods, found.throttled) == (0.25, 4, 1)


@pytest.mark.parametrize("text", ["", "max", "0 100000", "x 1", "-5 100000", "50000 0", "50000", "\xff"])
def test_a_quota_that_is_none_or_nonsense_limits_nothing(tmp_path: Path, text: str) -> None:
    root = system(tmp_path, group="0::/\n", files={"sys/fs/cgroup/cpu.max": text})
    assert processors_given(root=root) >= 1
    found = read_processors(root=root)
    assert found is not None
    assert found.quota == math.inf


@linux
def test_this_machine_is_read() -> None:
    first = read_processors([os.getpid(), 2**30])
    sum(i * i for i in range(3_000_000))
    last = read_processors([os.getpid(), 2**30])
    assert first is not None
    assert last is not None
    assert set(first.own_s) == {os.getpid()}
    use = use_between(first, last)
    assert isinstance(use, ProcessorUse)
    assert 0 < use.own <= use.processors + 0.5

"""The lease by which one process leads, and the file that keeps what it decided."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kwiken.runtime.gateway.steering.lease import LEASE_S, Lease
from kwiken.runtime.gateway.steering.record_file import RecordFile
from kwiken.tail.autopilot.record import AutopilotRecord
from tests.support.models.autopilots import SERVICE, plan_named


def test_one_leads_and_another_takes_over_a_lease_that_has_ended(tmp_path: Path) -> None:
    first, second = (Lease(tmp_path / "a.lease", name) for name in ("first", "second"))
    assert first.hold(100.0)
    assert not second.hold(101.0)
    assert second.leader == "first"
    assert first.hold(102.0)  # moves the end forward
    assert not second.hold(102.0 + LEASE_S - 0.1)
    assert second.hold(102.0 + LEASE_S)
    assert second.epoch > first.epoch
    assert not first.hold(103.0 + LEASE_S)


def test_after_the_file_is_lost_the_number_is_higher_than_all_that_gateways_have_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.lease"
    first = Lease(path, "first")
    assert first.hold(1000.0)
    before = first.epoch
    path.unlink()
    assert first.hold(1002.0)
    assert first.epoch > before
    path.unlink()
    second = Lease(path, "second")  # of another process, which knows of no number
    assert second.hold(1010.0)
    assert second.epoch > first.epoch


def test_a_lease_that_was_given_back_is_taken_at_once(tmp_path: Path) -> None:
    first, second = (Lease(tmp_path / "a.lease", name) for name in ("first", "second"))
    assert first.hold(100.0)
    second.release()  # is not its holder
    assert not second.hold(100.5)
    first.release()
    assert second.hold(101.0)


@pytest.mark.parametrize("text", [b"", b"{", b'{"holder":1}', b"\xff\xff"])
def test_a_torn_lease_is_taken(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.lease").write_bytes(text)
    assert Lease(tmp_path / "a.lease", "me").hold(5.0)


def test_an_end_far_ahead_came_from_a_wrong_clock(tmp_path: Path) -> None:
    first, second = (Lease(tmp_path / "a.lease", name) for name in ("first", "second"))
    assert first.hold(1e9)
    assert second.hold(100.0)


def test_a_folder_that_cannot_be_written_makes_no_leader(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in place of the folder")
    with pytest.raises(OSError, match=r"."):
        Lease(tmp_path / "state" / "a.lease", "me").hold(1.0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 5), st.booleans()), max_size=60),
)
def test_never_two_lead_and_numbers_never_fall(steps: list[tuple[int, float, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        leases = [Lease(Path(folder) / "a.lease", f"process {number}") for number in range(4)]
        now_s, highest = 100.0, 0
        ends: dict[int, float] = {}
        for number, later_s, gives_back in steps:
            now_s += later_s
            if leases[number].hold(now_s):
                others = [who for who, end_s in ends.items() if end_s > now_s and who != number]
                assert not others
                assert leases[number].epoch >= highest
                highest = leases[number].epoch
                ends[number] = now_s + LEASE_S
                if gives_back:
                    leases[number].release()
                    del ends[number]


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "state" / "shop.autopilot")
    record = AutopilotRecord(service=SERVICE, budget=0.05, in_force=plan_named("good"))
    assert file.save(record)
    assert file.read(SERVICE, 0.05) == record


def test_a_smaller_budget_drops_plans_beyond_it(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "shop.autopilot")
    plan = plan_named("good")
    file.save(
        AutopilotRecord(
            service=SERVICE,
            budget=0.05,
            in_force=plan,
            phase="trying",
            trial=plan_named("b"),
            trial_share=0.5,
        )
    )
    found = file.read(SERVICE, 0.02)
    assert (found.budget, found.in_force, found.trial, found.phase) == (0.02, None, None, "watching")
    assert file.read(SERVICE, 0.2).in_force == plan


@pytest.mark.parametrize("text", [b"", b"no record", b'{"service":"shop","budget":7}'])
def test_a_file_that_is_no_record_is_set_aside(
    text: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = RecordFile(tmp_path / "shop.autopilot")
    file.path.write_bytes(text)
    file.path.chmod(0o600)
    assert file.read(SERVICE, 0.05) == AutopilotRecord(service=SERVICE, budget=0.05)
    assert "begins anew" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["shop.autopilot.unreadable"]


def test_a_record_that_cannot_be_saved_is_told_of(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "shop.autopilot")
    (tmp_path / "shop.autopilot.new").mkdir()  # in the way, as a full disk would be
    assert not file.save(AutopilotRecord(service=SERVICE, budget=0.05))
    assert file.trouble == os.strerror(21)

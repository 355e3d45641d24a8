"""The note of the plan in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime._kept import KeptPlan


def test_what_is_kept_is_read_and_private(tmp_path: Path) -> None:
    kept = KeptPlan(tmp_path / "a.plan")
    kept.keep(b'{"a":1}', (1, 2, 3))
    note = kept.read()
    assert note is not None
    assert (bytes(note.plan), note.stamp) == (b'{"a":1}', (1, 2, 3))
    assert kept.path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [kept.path]


def test_an_older_note_goes_where_the_newer_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = KeptPlan(tmp_path / "a.plan")
    kept.keep(b'{"a":1}', None)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("msgspec.json.encode", full)  # as if the write had failed
    kept.keep(b"null", None)
    assert kept.read() is None
    assert list(tmp_path.iterdir()) == []
    assert "the plan cannot be noted" in caplog.text


@pytest.mark.parametrize("text", [b"", b"{", b'{"stamp":null}', b'{"stamp":["a"],"plan":1}', b"\xff" * 99])
def test_a_broken_note_is_none_and_said(
    text: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = KeptPlan(tmp_path / "a.plan")
    kept.path.write_bytes(text)
    assert kept.read() is None
    assert "cannot be read" in caplog.text

"""Times of processes from their start to their end, and to the first read of their input."""

from __future__ import annotations

import pytest

from benchmarks.command.bench_start import time_to_end, time_to_read

READ = "import sys; sys.stdin.buffer.read(1)"


def test_time_to_read_ends_with_the_first_read() -> None:
    assert time_to_read(f"import time; time.sleep(0.3); {READ}") >= 0.3
    # This process goes on until its input is closed, which comes after the first read was timed.
    assert time_to_read("import sys; sys.stdin.buffer.read()") > 0


def test_a_process_that_ends_without_reading_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="before it read its input: no reader"):
        time_to_read("import sys; sys.exit('no reader')")


def test_another_exit_code_is_an_error() -> None:
    assert time_to_end("raise SystemExit(3)", code=3) > 0
    with pytest.raises(RuntimeError, match="exit code 3, not 0: oh"):
        time_to_end("import sys; print('oh', file=sys.stderr); sys.exit(3)")
    with pytest.raises(RuntimeError, match="exit code 3, not 0"):
        time_to_read(f"{READ}; sys.exit(3)")

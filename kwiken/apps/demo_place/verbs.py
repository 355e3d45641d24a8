"""Run of an operator's verb as a user runs it: the command line is shown, its output goes to the log."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kwiken.base.errors import KwikenError
from kwiken.runtime.base.event_loop import cancel_and_wait

WAITS: Final = 3  # exit code of `kwiken place` where a workload waits; the placement is written
MAX_VERB_S: Final = 180.0  # time after which a verb is ended


async def run_verb(
    *words: str, folder: Path, say: Callable[[str], None], log: Path, allowed: tuple[int, ...] = (0,)
) -> int:
    """Run `kwiken` with some words in a folder; returns the exit code.

    Args:
        words: verb, arguments and options.
        say: told the command line.
        log: file that the verb's output is appended to.
        allowed: exit codes that are no failure.

    Raises:
        KwikenError: the verb fails, or takes longer than `MAX_VERB_S`; has the last line of its output.
    """
    say(f"$ kwiken {shlex.join(words)}")
    with log.open("ab") as output:
        start = output.tell()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kwiken", *words, cwd=folder, stdout=output, stderr=output
        )
        waiting = asyncio.create_task(process.wait())
        try:
            code = await asyncio.wait_for(asyncio.shield(waiting), MAX_VERB_S)
        except TimeoutError:
            raise KwikenError(f"kwiken {words[0]} did not end within {MAX_VERB_S:.0f} s") from None
        finally:
            if process.returncode is None:
                process.terminate()
                await waiting
            await cancel_and_wait([waiting])
    if code not in allowed:
        with log.open("rb") as output:
            output.seek(start)
            last = output.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise KwikenError(f"kwiken {words[0]} ended with exit code {code}: {last}")
    return code

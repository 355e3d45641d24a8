"""Reader of the job histories of Hadoop 1: a kind and `KEY="value"` fields a line."""

from __future__ import annotations

import re
from typing import Final

from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.map_reduce import AttemptEnd, MapReduceRun

_FIELD: Final = re.compile(r'([A-Z_]+)="((?:[^"\\]|\\.)*)"')
_COUNTER: Final = re.compile(r"\[\(([A-Z_]*BYTES[A-Z_]*)\)\([^\[\]]*\)\((\d{1,18})\)\]")
_ESCAPED: Final = re.compile(r"\\(.)")
NOT_OF_THE_JOB: Final = ('TASK_TYPE="SETUP"', 'TASK_TYPE="CLEANUP"')
ENDED: Final = {"SUCCESS", "FAILED", "KILLED"}


def _fields(text: str) -> dict[str, str]:
    """Fields of a line, without the backslashes before marks."""
    return {
        key: _ESCAPED.sub(r"\1", value) if "\\" in value and key != "COUNTERS" else value
        for key, value in _FIELD.findall(text)
    }


class HadoopOneReader:
    """Reader of the lines of one job.

    Args:
        name: name of a job whose history gives none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._run = MapReduceRun()

    def feed(self, line: bytes) -> None:
        """Take one line.

        Raises:
            ValueError: the line does not end as lines of this format do, or a time is no number.
        """
        text = line.decode("utf-8", errors="replace").strip()
        if not text:
            return
        kind, _, rest = text.partition(" ")
        if kind == "Meta":
            return
        if not text.endswith("."):
            raise ValueError("is cut")
        if kind == "Job":
            self._job(_fields(rest))
        elif kind in {"MapAttempt", "ReduceAttempt"} and not rest.startswith(NOT_OF_THE_JOB):
            self._attempt(_fields(rest))

    def _job(self, fields: dict[str, str]) -> None:
        run = self._run
        if "SUBMIT_TIME" in fields:
            run.submitted(fields.get("JOBID", ""), fields.get("JOBNAME", ""), int(fields["SUBMIT_TIME"]))
        if "TOTAL_MAPS" in fields:
            run.declared(int(fields["TOTAL_MAPS"]), int(fields.get("TOTAL_REDUCES", "0")))
        if "FINISH_TIME" in fields:
            run.ended(int(fields["FINISH_TIME"]), failed=fields.get("JOB_STATUS") not in {None, "SUCCESS"})

    def _attempt(self, fields: dict[str, str]) -> None:
        attempt, kind = fields.get("TASK_ATTEMPT_ID", ""), fields.get("TASK_TYPE", "")
        if "START_TIME" in fields:
            tracker = fields.get("TRACKER_NAME", "").partition("/")[0]
            self._run.attempt_started(attempt, kind, int(fields["START_TIME"]), tracker)
        if fields.get("TASK_STATUS") in ENDED:
            rack, _, host = fields.get("HOSTNAME", "").rpartition("/")
            counters = {name: int(value) for name, value in _COUNTER.findall(fields.get("COUNTERS", ""))}
            self._run.attempt_ended(
                AttemptEnd(
                    attempt=attempt,
                    kind=kind,
                    outcome=fields["TASK_STATUS"],
                    finished_ms=int(fields.get("FINISH_TIME", "0")),
                    host=host,
                    rack=rack,
                    counters=counters,
                )
            )

    def jobs(self) -> list[BatchJob]:
        """The run that was read, or none where the history has no line of one."""
        return self._run.jobs(self._name)

"""Storage models as traces and jobs of other programs: CSV, fio's iolog, a job file of fio."""

from __future__ import annotations

from kwiken.export.block_io.fio import fio_job as fio_job
from kwiken.export.block_io.trace_text import csv_text as csv_text, iolog_text as iolog_text

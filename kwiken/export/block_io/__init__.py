"""Storage models as traces and jobs of other programs: CSV, fio's iolog, a job file of fio."""

"""Late requests: their timeline, and the help that they get (Kwiken sections 2.1 and 5.5)."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken.late_requests.global_reissue import (
    GlobalReissue as GlobalReissue,
    run_global_reissue as run_global_reissue,
    tune_global_reissue as tune_global_reissue,
)
from kwiken.lab.reproduction.kwiken.late_requests.timeline import late_parts as late_parts

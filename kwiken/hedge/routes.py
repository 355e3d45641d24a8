"""Stages of requests: which stage of a plan a method and path belong to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from kwiken.base.errors import InputError
from kwiken.export.plans.calls import ExportedCall, call_named, call_of
from kwiken.model.plan.plan import SAFE_METHODS, Plan

TOO_MANY: Final = 429
SERVER_ERROR: Final = 500


def is_answer(status: int) -> bool:
    """Whether an HTTP status is an answer: neither an error of the server nor 429, which sheds load."""
    return status < SERVER_ERROR and status != TOO_MANY


class Routes:
    """Calls that the stages of the plan in force stand for.

    A stage's call is the one that its `match` in the plan denotes, else the one that its name denotes, such
    as `GET /items/{id}` or `shop.Search/Lookup`.

    Args:
        plan: function that gives the plan in force.

    Raises:
        InputError: no stage of the plan denotes a call; says what would. Of a plan that comes into force
            afterwards, such requests go out without copies.
    """

    def __init__(self, plan: Callable[[], Plan]) -> None:
        self._in_force = plan
        self._read(plan())
        if not self._exact and not self._patterns:
            raise InputError(
                "no stage is a call that can be recognised: name stages as 'GET /items/{id}' or"
                " 'package.Service/Method', or make the plan from traces that state routes",
                where="plan",
            )

    def _read(self, plan: Plan) -> None:
        self._plan = plan
        self._exact: dict[str, list[tuple[ExportedCall, str]]] = {}
        self._patterns: list[tuple[re.Pattern[str], ExportedCall, str]] = []
        for name, entry in plan.stages.items():
            call = call_of(entry.match, None) or call_named(name, sure=True)
            if call is not None and call.path is not None:
                self._exact.setdefault(call.path, []).append((call, name))
            elif call is not None and call.regex is not None:
                self._patterns.append((re.compile(call.regex), call, name))

    def find(self, method: str, path: str, host: str = "") -> tuple[str, bool] | None:
        """Stage of a request, and whether the request reads; None for a request that is no stage's.

        A request reads if its method does, or if the plan names its method: a plan reissues only what reads.
        Where several stages fit, the host decides; where it does not, the request is no stage's, as doubt is
        safe.

        Args:
            method: HTTP method, upper case; POST for gRPC.
            path: path without a query.
            host: name of the callee; empty where it is not known.
        """
        if (plan := self._in_force()) is not self._plan:
            self._read(plan)
        found = [(call, name) for call, name in self._fitting(path) if call.method in {None, method}]
        if len(found) > 1:
            found = [(call, name) for call, name in found if call.host == host.lower()]
        if len(found) != 1:
            return None
        call, name = found[0]
        return name, method in SAFE_METHODS or call.method == method

    def _fitting(self, path: str) -> Iterator[tuple[ExportedCall, str]]:
        if path in self._exact:
            yield from self._exact[path]
        else:
            yield from ((call, name) for pattern, call, name in self._patterns if pattern.fullmatch(path))

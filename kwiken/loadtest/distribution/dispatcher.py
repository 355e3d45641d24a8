"""Dispatcher of Locust's users that gives every process one sender of an open-loop load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from locust.dispatch import UsersDispatcher

from kwiken.loadtest.distribution.share import one_sender_each


class SharingDispatcher(UsersDispatcher):
    """Locust's dispatcher with ramps and rebalancing as they are, and one open-loop user in each process.

    Args:
        classes: names of the open-loop user classes.
        publish: callback, called before each message to the processes, with the number of users asked for by
            class and the ids of the processes in ascending order.
    """

    def __init__(
        self,
        *arguments: Any,
        classes: list[str],
        publish: Callable[[dict[str, int], list[str]], None],
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._classes = classes
        self._publish = publish

    def __next__(self) -> dict[str, dict[str, int]]:
        placed, asked = one_sender_each(super().__next__(), self._classes)
        self._publish(asked, sorted(placed))
        return placed

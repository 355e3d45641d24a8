"""Replica scores of the simulator against those of the runtime."""

from __future__ import annotations

import random
from collections import deque
from heapq import heapify
from math import inf

import pytest

from kwiken.runtime.decisions.choice.picker import Picker
from kwiken.runtime.wire.transport.base import Replica, Reply
from kwiken.tail.queueing.simulator.replica_scores import Estimates


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_the_picker(seed: int) -> None:
    """Random calls, answers and cancelled calls: after each, every replica's score is the same.

    Every replica answers a liveness probe at once: none is paused here.
    """
    rng = random.Random(seed)
    picker = Picker([Replica(id=str(i), node="n", address="") for i in range(3)], rng)
    targets = list(picker.targets)
    ours = Estimates(3)
    outstanding: list[list[tuple[float, int]]] = [[], [], []]  # (answer, call)
    queues: list[deque[int]] = [deque(), deque(), deque()]
    awaited, arrival = bytearray(400), [0.0] * 400
    score = ours.scorer(outstanding, queues, awaited, arrival, ())
    running: list[tuple[int, int, int]] = []  # (replica, ticket, call)
    now_ms, compared = 0.0, 0
    for call in range(400):
        now_ms += rng.expovariate(1 / rng.choice([5.0, 5.0, 5.0, 3000.0]))
        now = now_ms / 1e3
        if not running or rng.random() < 0.5:
            i = rng.randrange(3)
            running.append((i, targets[i].take(now), call))
            outstanding[i].append((inf, call))
            queues[i].append(call)
            awaited[call], arrival[call] = True, now_ms
        else:
            i, ticket, ended = running.pop(rng.randrange(len(running)))
            outstanding[i].remove((inf, ended))
            if rng.random() < 0.8:
                picker.answered(targets[i], ticket, now, Reply(value=None))
                outstanding[i].append((now_ms, ended))  # learned when the next score is asked for
            else:
                if picker.dropped(targets[i], ticket, now, blame=False):
                    picker.probed(targets[i], now, alive=True)
                ours.cancelled(i, now_ms - arrival[ended], now_ms)
                awaited[ended] = False
            heapify(outstanding[i])
        if any(target.ejected for target in targets):
            break  # that part of the picker is not simulated
        for i in range(3):  # the first score of a replica also learns its answers for the stage
            score(i, now_ms)
        scores = [score(i, now_ms) for i in range(3)]
        # Where nothing is known at all both take 1, of their own units.
        if picker.typical:
            assert [each / 1e3 for each in scores] == pytest.approx(
                [picker.score(target, now) for target in targets]
            )
            compared += 1
    assert compared > 60

"""The simulator's judgement of replicas is the runtime's."""

from __future__ import annotations

import random
from math import inf

import pytest

from kwiken.queueing._estimates import Estimates
from runtime import Replica, Reply
from runtime._picker import Picker


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_the_picker(seed: int, *, paused: bool) -> None:
    """Random calls, answers and calls given up: after each, every replica's score is the same.

    A replica gives the sign of life that the picker asks for at once, or some time later where it is paused.
    """
    rng = random.Random(seed)
    names = [Replica(id=str(i), node="n", address="") for i in range(3)]
    picker = Picker(names, rng)
    seats = list(picker.seats)
    ours = Estimates(3)
    flight: list[tuple[int, int, float]] = []
    now_ms, compared, silences = 0.0, 0, 0
    alive_at = [0.0] * 3  # of those that were asked for a sign of life
    for _ in range(400):
        now_ms += rng.expovariate(1 / rng.choice([5.0, 5.0, 5.0, 3000.0]))
        now = now_ms / 1e3
        for i, seat in enumerate(seats):
            if seat.asked and alive_at[i] <= now_ms:
                picker.heard(seat, alive_at[i] / 1e3, alive=True)
        if not flight or rng.random() < 0.5:
            i = rng.randrange(3)
            flight.append((i, seats[i].take(now), now_ms))
        else:
            i, ticket, sent = flight.pop(rng.randrange(len(flight)))
            if rng.random() < 0.8:
                picker.answered(seats[i], ticket, now, Reply(value=None))
                ours.answered(i, now_ms - sent, now_ms)
            else:
                alive_at[i] = _works_again(alive_at[i], now_ms, rng if paused else None)
                if picker.dropped(seats[i], ticket, now, blame=False) and alive_at[i] == now_ms:
                    picker.heard(seats[i], now, alive=True)
                ours.dropped(i, now_ms - sent, now_ms, alive_at[i])
        if any(seat.ejected for seat in seats):
            break  # that part of the picker is not simulated
        for i, seat in enumerate(seats):
            mine = [sent for j, _, sent in flight if j == i]
            # Where nothing is known at all both take 1, of their own units.
            if picker.typical:
                score = ours.score(i, len(mine), min(mine, default=now_ms), now_ms)
                assert score / 1e3 == pytest.approx(picker.score(seat, now))
                compared += 1
                silences += seat.silent < inf
    assert compared > 60
    assert (silences > 5) == paused


def _works_again(known_ms: float, now_ms: float, rng: random.Random | None) -> float:
    """When a replica's pause ends: the one that it is known to be in, or a new one."""
    if known_ms > now_ms or rng is None:
        return max(known_ms, now_ms)
    return now_ms + rng.expovariate(1 / 40.0)

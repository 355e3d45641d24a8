"""Crosstalk: pairs that cannot be told apart, and losses from windows in turns."""

from __future__ import annotations

import numpy as np
import pytest

from kwiken.allocator.contention.crosstalk import Crosstalk, loss


def test_pairs_are_named_by_their_loss_and_never_with_themselves() -> None:
    losses = np.array([[0.9, 0.2, 0.0], [0.5, 0.9, 0.15], [0.0, -0.1, 0.9]])
    cross = Crosstalk(("l1d", "l2", "disk"), 0.5, losses)
    assert cross.inseparable() == [("l2", "l1d", 0.5), ("l1d", "l2", 0.2)]
    assert cross.mean_off_diagonal == pytest.approx(0.75 / 6)


def test_one_source_has_no_crosstalk() -> None:
    cross = Crosstalk(("disk",), 0.5, np.array([[0.4]]))
    assert (cross.inseparable(), cross.mean_off_diagonal) == ([], 0.0)


def test_a_loss_is_the_median_of_neighbouring_windows() -> None:
    # The machine halves its speed meanwhile, and one window is disturbed.
    assert loss([100.0, 50.0, 40.0], [80.0, 40.0, 4.0]) == pytest.approx(0.2)


def test_a_kernel_without_speed_loses_nothing() -> None:
    assert loss([0.0, 0.0], [1.0, 1.0]) == 0.0

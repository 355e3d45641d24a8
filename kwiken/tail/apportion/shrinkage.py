"""Shrinkage of gains by their confidence: the fewer requests were seen, the less an uncertain gain counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwiken.model.profile import Profile
from kwiken.tail.apportion.notes import ApportionNote, GainsMayBeChance, GainsUncertain
from kwiken.tail.apportion.sum_of_variances import HulledCurve, sumvar
from kwiken.tail.curves import UNCERTAIN_GAIN_SHARE, Curve, CurveBounds, curve_bounds

LOW_CERTAINTY = 0.5  # below this a stage is named in a note


class Shrinkage:
    """Shrunk curves to apportion by; computes confidence only for stages that would get any budget.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        seed: seed of the draws that replace cancelled calls.

    Attributes:
        bounds: confidence of the curve of each stage examined so far, by its name.
    """

    def __init__(self, profile: Profile, curves: Mapping[str, Curve], *, seed: int = 0) -> None:
        self._profile, self._curves, self._seed = profile, curves, seed
        self._hulls: dict[str, HulledCurve] = dict(curves)
        self.bounds: dict[str, CurveBounds] = {}

    def hulls(self, prices: Mapping[str, float], budget: float) -> Mapping[str, HulledCurve]:
        """By stage: hull to apportion a budget by.

        Unexamined stages keep their own curves, which gain at least as much as shrunk ones. So once SumVar
        gives budget to examined stages only, the others would get none with shrunk curves either.

        Args:
            prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
            budget: the most that may be spent, 0 or more.
        """
        while True:
            found = sumvar(self._hulls, prices, budget).fractions
            fresh = [name for name, share in found.items() if share > 0 and name not in self.bounds]
            if not fresh:
                return self._hulls
            self._examine(fresh)

    def _examine(self, names: Iterable[str]) -> None:
        some = {name: self._curves[name] for name in names}
        found = curve_bounds(self._profile, some, seed=self._seed)
        self.bounds.update(found)
        self._hulls.update({name: found[name].shrunk(curve.hull) for name, curve in some.items()})


def caution_notes(bounds: Mapping[str, CurveBounds]) -> tuple[ApportionNote, ...]:
    """Notes on stages whose gains are uncertain.

    Args:
        bounds: confidence of the curves of the stages examined, by stage.
    """
    notes: list[ApportionNote] = []
    unsure = tuple(name for name, each in bounds.items() if not each.certainty > 0)
    if unsure:
        notes.append(GainsMayBeChance(unsure, UNCERTAIN_GAIN_SHARE))
    doubtful = {
        name: float(each.certainty) for name, each in bounds.items() if 0 < each.certainty < LOW_CERTAINTY
    }
    if doubtful:
        notes.append(GainsUncertain(doubtful))
    return tuple(notes)

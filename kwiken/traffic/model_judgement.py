"""Judgement of a traffic model on later traffic: errors by level, beside the mean map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.traffic.document import TrafficModel
from kwiken.traffic.flows import BinnedFlows, TrafficEndpoint, summed
from kwiken.traffic.maps import AlignedMaps, MapLevel, TrafficMap, aligned, level_map, levels_of

DIGITS: Final = 9  # of errors, which are shares
MAX_PAIRS: Final = 10  # busiest pairs that are listed


@dataclass(frozen=True)
class MapErrors:
    """Errors of one expected map at one level, as shares of the traffic.

    Attributes:
        all_pairs: sum of the differences of all pairs, 0 to 2.
        busiest: the same of the busiest pairs alone, over what they carry.
        rare: the same of the half of the pairs that carry the least, over what they carry.
    """

    all_pairs: float
    busiest: float
    rare: float


@dataclass(frozen=True)
class LevelJudgement:
    """Errors at one level.

    Attributes:
        pairs: number of pairs that were expected or seen.
        model: errors of the model's map.
        mean: errors of the plain mean of the same traffic.
    """

    level: MapLevel
    pairs: int
    model: MapErrors
    mean: MapErrors


@dataclass(frozen=True)
class ServiceRate:
    """Rate of one service.

    Attributes:
        expected: calls or bytes a second that it sends and receives, by the model.
        seen: the same in the later traffic.
    """

    service: str
    expected: float
    seen: float


@dataclass(frozen=True)
class TrafficJudgement:
    """What became of a model's expectations.

    Attributes:
        levels: errors by level, the coarsest level first.
        expected_per_s: calls or bytes a second in all that were expected while there is traffic.
        seen_per_s: calls or bytes a second in all that were seen.
        services: rates by service, the busiest first.
        new: number of endpoints of known services that the model does not know by name.
        unknown: number of services that the model does not know.
    """

    levels: tuple[LevelJudgement, ...]
    expected_per_s: float
    seen_per_s: float
    services: tuple[ServiceRate, ...]
    new: int
    unknown: int


def judge(model: TrafficModel, later: BinnedFlows) -> TrafficJudgement:
    """Compare a model with traffic that it has not seen.

    An instance that the model does not know gets the mean of its service's known instances.

    Args:
        later: traffic to judge by.
    """
    group = {one.service: one.group for one in model.endpoints}
    ends = [msgspec.structs.replace(one, group=group.get(one.service, "")) for one in later.endpoints]
    used = np.unique(np.concatenate([later.source, later.target]))
    ends_used = [ends[place] for place in used.tolist()]
    rates = _expected_rates(model, later)
    seen = np.array(model.seen)
    moves = _Moves(model, ends_used)
    later_map = TrafficMap(
        tuple(one.name for one in moves.endpoints),
        np.searchsorted(used, later.source),
        np.searchsorted(used, later.target),
        later.total,
    )
    moved = {name: moves.moved(amount) for name, amount in (("model", rates), ("mean", seen))}
    levels = []
    for level in levels_of(moves.endpoints):
        truth = _at(moves.endpoints, level, later_map)
        sides = {name: aligned(_at(moves.endpoints, level, each), truth) for name, each in moved.items()}
        levels.append(
            LevelJudgement(
                level=level,
                pairs=len(sides["model"].seen),
                model=_errors(sides["model"]),
                mean=_errors(sides["mean"]),
            )
        )
    known = {(one.service, one.name) for one in model.endpoints}
    return TrafficJudgement(
        levels=tuple(levels),
        expected_per_s=float(rates.sum()),
        seen_per_s=float(later.total.sum()) / later.seconds,
        services=_services(moves.endpoints, moved["model"], float(rates.sum()), later_map, later.seconds),
        new=sum((one.service, one.name) not in known and one.service in group for one in ends_used),
        unknown=len({one.service for one in ends_used} - group.keys()),
    )


def _expected_rates(model: TrafficModel, later: BinnedFlows) -> Floats:
    """(p,) expected calls or bytes a second by pair, in the windows in which the later traffic lies."""
    found, bins = np.zeros(len(model.source)), 0
    for place, each in enumerate(model.windows):
        here = int(each.window.holds(later.starts_s).sum())
        if here and each.seconds > 0:
            found += here * model.rates_per_s(place)
            bins += here
    return found / bins if bins else model.rates_per_s()


def _at(endpoints: Sequence[TrafficEndpoint], level: MapLevel, fine: TrafficMap) -> TrafficMap:
    return level_map(endpoints, level, fine.source, fine.target, fine.amount)


def _errors(found: AlignedMaps) -> MapErrors:
    busiest = np.zeros(len(found.seen), dtype=np.bool_)
    busiest[np.argsort(-found.seen, kind="stable")[:MAX_PAIRS]] = True
    # Maps that are equal but for rounding are to have equal errors.
    errors = (found.error, found.error_of(busiest), found.error_of(found.rare))
    return MapErrors(*(round(error, DIGITS) for error in errors))


def _services(
    endpoints: Sequence[TrafficEndpoint],
    expected: TrafficMap,
    expected_per_s: float,
    seen: TrafficMap,
    seconds: float,
) -> tuple[ServiceRate, ...]:
    rates: dict[str, list[float]] = {}
    for side, (each, factor) in enumerate(
        ((expected.shares(), expected_per_s), (seen, 1.0 / seconds)),
    ):
        both = summed(each.source, each.amount, len(endpoints))
        both += summed(each.target, each.amount, len(endpoints))
        for one, amount in zip(endpoints, both.tolist(), strict=True):
            rates.setdefault(one.service, [0.0, 0.0])[side] += amount * factor
    ranked = sorted(rates.items(), key=lambda item: (-item[1][1], item[0]))
    return tuple(ServiceRate(name, *sides) for name, sides in ranked)


class _Moves:
    """Moves amounts by pair of a model's endpoints to the endpoints of later traffic.

    Args:
        later: endpoints of the later traffic.

    Attributes:
        endpoints: endpoints of the later traffic, then those of the model's services that it lacks.
    """

    def __init__(self, model: TrafficModel, later: Sequence[TrafficEndpoint]) -> None:
        services = {one.service for one in later}
        absent = [one for one in model.endpoints if one.service not in services]
        self.endpoints = (*later, *absent)
        self._model = model
        self._source, self._target = model.pairs
        numbers = {(one.service, one.name): place for place, one in enumerate(self.endpoints)}
        self._place = np.array(
            [numbers.get((one.service, one.name), -1) for one in model.endpoints], np.int64
        )
        self._members: dict[str, list[int]] = {}
        for place, one in enumerate(self.endpoints):
            self._members.setdefault(one.service, []).append(place)
        known: dict[str, int] = {}
        for one, place in zip(model.endpoints, self._place.tolist(), strict=True):
            known[one.service] = known.get(one.service, 0) + (place >= 0)
        same = {name: known[name] == len(self._members[name]) == self._count(name) for name in known}
        self._same = np.array([same[one.service] for one in model.endpoints], np.bool_)

    def _count(self, service: str) -> int:
        return sum(one.service == service for one in self._model.endpoints)

    def moved(self, amount: Floats) -> TrafficMap:
        """Map over `endpoints` of amounts by pair of the model.

        Args:
            amount: (p,) amount of each pair of the model.
        """
        direct = self._same[self._source] & self._same[self._target]
        sources = [self._place[self._source[direct]]]
        targets = [self._place[self._target[direct]]]
        amounts = [amount[direct]]
        for (sender, receiver), pairs in self._by_services(~direct).items():
            out = self._landing(sender, self._source[pairs], amount[pairs])
            into = self._landing(receiver, self._target[pairs], amount[pairs])
            rows, columns = np.array(self._members[sender]), np.array(self._members[receiver])
            block = np.outer(out, into)
            block[rows[:, None] == columns] = 0.0  # an endpoint does not send to itself
            total = float(amount[pairs].sum())
            block *= total / block.sum() if block.sum() > 0 else 0.0
            sources.append(np.repeat(rows, len(columns)))
            targets.append(np.tile(columns, len(rows)))
            amounts.append(block.ravel())
        return TrafficMap(
            tuple(one.name for one in self.endpoints),
            np.concatenate(sources),
            np.concatenate(targets),
            np.concatenate(amounts),
        )

    def _by_services(self, some: Bools) -> Mapping[tuple[str, str], Ints]:
        """Indices of some pairs by the services of sender and receiver."""
        found: dict[tuple[str, str], list[int]] = {}
        ends = self._model.endpoints
        for pair in np.flatnonzero(some).tolist():
            key = ends[self._model.source[pair]].service, ends[self._model.target[pair]].service
            found.setdefault(key, []).append(pair)
        return {key: np.array(pairs) for key, pairs in found.items()}

    def _landing(self, service: str, ends: Ints, amount: Floats) -> Floats:
        """(m,) share of each endpoint of a service in the traffic of a pair of services."""
        members = self._members[service]
        at = {place: number for number, place in enumerate(members)}
        found = np.full(len(members), np.nan)
        by_end = summed(ends, amount, len(self._place))
        for end in np.unique(ends).tolist():
            place = int(self._place[end])
            if place >= 0:
                found[at[place]] = by_end[end]
        known = found[~np.isnan(found)]
        found[np.isnan(found)] = known.mean() if known.size else 1.0
        total = float(found.sum())
        return found / total if total > 0 else np.full(len(members), 1.0 / len(members))

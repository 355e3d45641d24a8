"""Tables 4.2 and 4.3 and Figure 4.3 of Quasar: errors of classification by matrix, method and density."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import FoldIn, GaussianModel
from kwiken.base.arrays import Floats, Ints
from papers.figures.rows import Part, percent
from papers.figures.tables import PlotLine, PlotOf, StatedRow, obtained, pooled, study
from papers.paragon.episodes import (
    CHOICES,
    DENSITIES,
    METHODS,
    Episode,
    TwoEntries,
    by_density,
    drawn,
    two_entries,
)
from papers.worlds.fleet.generators import MAX_REPLICAS, replica_rows, score_rows, size_rows
from papers.worlds.populations.platforms import platform_rows

KNOWN = 30  # workloads that are known whole
RANKS = {"scale-up": 3, "scale-out": 2, "heterogeneity": 1, "interference": 2}
REPLICAS = tuple(range(1, MAX_REPLICAS + 1))
MORE_ENTRIES = (3, 4, 5)  # of scale-up, where two cannot tell cores from memory
NOISES = (0.02, 0.005)
FOUR_NODES = 3  # column of four nodes, the most that the source profiles on
# By matrix: mean, 90th percentile and maximum in Table 4.2, over the source's kinds of workloads.
TABLE_4_2 = {
    "scale-up": ("4.0 to 8.0", "8.1 to 10.1", "9 to 13"),
    "scale-out": ("5.0 to 7.5", "10.5 to 14.5", "12 to 17"),
    "heterogeneity": ("3.5 to 5.2", "4.6 to 6.9", "5.0 to 8.0"),
    "interference": ("1.8 to 7.2", "5.1 to 9.2", "6 to 10"),
}
SYNTHETIC = "synthetic matrices, fixed by the specification and not adjusted; the source's workloads are real"
OUT_NOTE = f"{SYNTHETIC}; one and four nodes are measured, and 1 to 100 predicted"

Densities = dict[str, dict[int, list[float]]]
SHAPE = (12, 6, 10, 10)  # sizes, numbers of nodes, platforms and patterns of contention: 7,200 columns
NEW = 60
ENTRIES = 2  # of each of the four, and four times as many of the joint matrix
RANK = 2
RIDGE = 1e-3
NOISE = 0.02
MAX_LOSS = 0.5  # of performance, by a pattern to which a workload is wholly sensitive


def world(rng: np.random.Generator) -> tuple[Floats, ...]:
    """Four matrices of log performance whose sums are the joint one: (90, n) for each of `SHAPE`."""
    count = KNOWN + NEW
    sizes = size_rows(rng, count, 0.0)[:, : SHAPE[0]]
    nodes = replica_rows(rng, count, 0.0)[:, [0, 1, 3, 7, 15, 31]]
    platforms = platform_rows(rng, count, 1)
    losses = np.log1p(-MAX_LOSS * score_rows(rng, count, RANK))
    return sizes, nodes, platforms, losses


def compare(seed: int) -> dict[str, list[float]]:
    """Mean error of each new workload over all columns, by one joint completion and by four composed."""
    rng = np.random.default_rng(seed)
    parts = world(rng)
    joint = _joint(parts)
    noisy = joint + rng.normal(0, NOISE, joint.shape)
    whole = [
        _exhaustive(noisy[:KNOWN], row, rng.choice(joint.shape[1], len(SHAPE) * ENTRIES, replace=False))
        for row in noisy[KNOWN:]
    ]
    models = [
        FoldIn(RANK, RIDGE).fit(part[:KNOWN] + rng.normal(0, NOISE, (KNOWN, part.shape[1])), level=True)
        for part in parts
    ]
    composed = [_composed(models, parts, place, rng) for place in range(KNOWN, KNOWN + NEW)]
    truth = joint[KNOWN:]
    return {
        name: np.abs(np.expm1(np.array(found) - truth)).mean(axis=1).tolist()
        for name, found in (("exhaustive", whole), ("parallel", composed))
    }


def _joint(parts: tuple[Floats, ...]) -> Floats:
    """(90, 7200) sums over every combination of columns."""
    up, out, het, loss = parts
    cube = (
        up[:, :, None, None, None]
        + out[:, None, :, None, None]
        + het[:, None, None, :, None]
        + loss[:, None, None, None, :]
    )
    joint: Floats = cube.reshape(len(up), -1)
    return joint


def _exhaustive(known: Floats, row: Floats, columns: Ints) -> Floats:
    """Ridge regression on the leading factors: `FoldIn` without its covariance of 7,200 by 7,200 numbers."""
    centre = known - known.mean(axis=1, keepdims=True)
    mean = centre.mean(axis=0)
    _, singular, right = np.linalg.svd(centre - mean, full_matrices=False)
    factors = right[:RANK].T * singular[:RANK] / np.sqrt(len(known))
    design = np.column_stack((np.ones(len(columns)), factors[columns]))
    system = design.T @ design + RIDGE * np.diag([0.0] + [1.0] * RANK)
    found = np.linalg.solve(system, design.T @ (row[columns] - mean[columns]))
    predicted: Floats = mean + found[0] + factors @ found[1:]
    predicted[columns] = row[columns]
    return predicted


def _composed(
    models: list[GaussianModel], parts: tuple[Floats, ...], place: int, rng: np.random.Generator
) -> Floats:
    """Sum of four completions; each is measured with the other three at their first column, the reference."""
    found: list[Floats] = []
    for model, part in zip(models, parts, strict=True):
        columns = rng.choice(part.shape[1], ENTRIES, replace=False)
        values = part[place, columns] + rng.normal(0, NOISE, ENTRIES)
        found.append(model.complete(columns, values).mean[None, :])
    joint: Floats = _joint(tuple(found))[0]
    return joint


def matrix(kind: str, seed: int, noise: float = 0.02) -> Episode:
    """Episode of one of the four matrices.

    Args:
        noise: standard deviation of a measurement's logarithm, for scale-up and scale-out.
    """
    rank = RANKS[kind]
    if kind == "scale-up":
        draw = partial(size_rows, noise=noise)
    elif kind == "scale-out":
        draw = partial(replica_rows, noise=noise)
    else:
        draw = partial(platform_rows if kind == "heterogeneity" else score_rows, rank=rank)
    replicas = REPLICAS if kind == "scale-out" else None
    level = kind != "interference"
    return drawn(draw, seed, known=KNOWN, level=level, rank=rank, replicas=replicas)


def densities(kind: str, seed: int) -> Densities:
    """Errors by number of random entries."""
    return by_density(matrix(kind, seed), seed)


def errors(kind: str, seed: int) -> TwoEntries:
    """Errors with two entries, by method and choice of columns."""
    if kind != "scale-out":
        return two_entries(matrix(kind, seed), seed)
    return two_entries(matrix(kind, seed), seed, given=(0,))


def four_nodes(noise: float, seed: int) -> dict[str, list[float]]:
    """Errors of scale-out from one and four nodes, by method.

    Args:
        noise: standard deviation of a measurement's logarithm.
    """
    episode = matrix("scale-out", seed, noise)
    columns = np.tile(np.array([0, FOUR_NODES]), (len(episode.new), 1))
    return {
        "column means": episode.errors(episode.means(columns), columns),
        "fold-in": episode.errors(episode.fold_in(columns), columns),
        "chosen": episode.errors(episode.chosen(columns)[0], columns),
    }


def more_entries(seed: int) -> dict[str, list[float]]:
    """Errors of scale-up by number of designed entries, by the chosen method."""
    episode = matrix("scale-up", seed)
    found = {}
    for entries in MORE_ENTRIES:
        columns = episode.designed(entries)
        found[f"{entries}"] = episode.errors(episode.chosen(columns)[0], columns)
    return found


def _spread(
    figure: str, metric: str, errors: Callable[[Any], list[float]], sources: tuple[str, ...], note: str
) -> Iterator[StatedRow]:
    """Rows of the errors of all workloads of all seeds."""
    for name, source in zip(SUMMARIES, sources, strict=True):
        value = partial(_pooled, name, errors)
        yield pooled(figure, f"{metric}, {name} over workloads, %", value, source, note)


def _pooled(name: str, errors: Callable[[Any], list[float]], seeds: list[Any]) -> float:
    return percent(float(SUMMARIES[name]([error for each in seeds for error in errors(each)])))


def _worst(values: list[float]) -> float:
    return float(np.percentile(values, 90))


SUMMARIES: Final[dict[str, Callable[[list[float]], Any]]] = {
    "mean": np.mean,
    "90th percentile": _worst,
    "maximum": np.max,
}
NONE: Final = ("", "", "")


def _errors() -> Iterator[StatedRow]:
    for kind, source in TABLE_4_2.items():
        for method in METHODS:
            published = source if method == "fold-in" else NONE
            errors = partial(_error_of_two, kind, method)
            yield from _spread("Table 4.2", f"{kind}, 2 entries, {method}", errors, published, SYNTHETIC)
        for columns in CHOICES:
            metric = f"{kind}, 90% intervals that hold, {columns}, %"
            held = partial(_held, kind, columns)
            yield pooled("Table 4.2", metric, held, "", "the source gives no intervals")


def _error_of_two(kind: str, method: str, by: Mapping[str, TwoEntries]) -> list[float]:
    return by[kind].errors[method]


def _held(kind: str, columns: str, seeds: list[Mapping[str, TwoEntries]]) -> float:
    return percent(float(np.mean([by[kind].covered[columns] for by in seeds])))


def _four_nodes() -> Iterator[StatedRow]:
    for noise in NOISES:
        for method in METHODS[:3]:
            metric = f"scale-out from 1 and 4 nodes, noise {noise:.1%}, {method}"
            errors = partial(obtained, (noise, method))
            yield from _spread("Table 4.2", metric, errors, TABLE_4_2["scale-out"], OUT_NOTE)


def _more_entries() -> Iterator[StatedRow]:
    note = "three traits and a level cannot be told by two entries; columns are designed"
    for entries in MORE_ENTRIES:
        metric = f"scale-up, {entries} entries, chosen, designed columns"
        yield from _spread("Table 4.2", metric, partial(obtained, f"{entries}"), NONE, note)


def _densities() -> Iterator[StatedRow]:
    source = "high at 1, low from 2, little gain after 4 to 5"
    for kind in TABLE_4_2:
        for entries in DENSITIES:
            metric = f"{kind}, {entries} entries, 90th percentile over workloads, %"
            value = partial(_pooled, "90th percentile", partial(obtained, (kind, "fold-in", entries)))
            yield pooled("Figure 4.3", metric, value, source, SYNTHETIC)


def _classified() -> Iterator[StatedRow]:
    note = "7,200 columns; 8 measurements either way; errors are of the joint prediction in both"
    for name, sources in (
        ("exhaustive", ("11.6 to 16.5", "12.1 to 17.6", "13 to 18")),
        ("parallel", ("6.9 to 12.7 by its four errors", "", "")),
    ):
        errors = partial(obtained, name)
        yield from _spread("Table 4.3", f"{name} classification", errors, sources, note)


def _worst_of_all(seeds: Sequence[Any]) -> float:
    return percent(_worst([error for errors in seeds for error in errors]))


BY_DENSITY: Final = PlotOf(
    "Figure 4.3",
    "90th percentile of the error by number of entries",
    "entries",
    "error, %",
    [
        PlotLine(
            f"{kind}: {method}",
            DENSITIES,
            [(kind, method, entries) for entries in DENSITIES],
            over=_worst_of_all,
        )
        for kind in TABLE_4_2
        for method in ("fold-in", "column means")
    ],
)


def tables(seeds: int) -> tuple[Part, ...]:
    """Parts that recompute the tables and the figure.

    Args:
        seeds: number of synthetic matrices to average over.
    """
    spread, kinds = partial(study, seeds=seeds), tuple(TABLE_4_2)
    return (
        spread("errors", errors, rows=_errors(), cases=kinds),
        spread("four nodes", four_nodes, rows=_four_nodes(), cases=NOISES),
        spread("more entries", more_entries, rows=_more_entries()),
        spread("densities", densities, rows=_densities(), cases=kinds, plots=(BY_DENSITY,)),
        spread("exhaustive", compare, rows=_classified()),
    )

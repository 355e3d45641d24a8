"""Tables 4.2 and 4.3 and Figure 4.3 of Quasar: errors of classification by matrix, method and density."""

from __future__ import annotations

from functools import partial

import numpy as np

from kwiken.allocator.workloads.completion.gaussian import FoldIn, GaussianModel
from kwiken.base.arrays import Floats, Ints
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    over_seeds,
    percent,
    row,
)
from papers.paragon.episodes import (
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
LOW_NOISE = 0.005
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
    metric: str, figure: str, values: list[float], source: tuple[str, ...], note: str
) -> list[FigureRow]:
    found = (np.mean(values), np.percentile(values, 90), np.max(values))
    names = ("mean", "90th percentile", "maximum")
    return [
        row(figure, f"{metric}, {name} over workloads, %", percent(float(value)), source=told, note=note)
        for name, value, told in zip(names, found, source, strict=True)
    ]


def _conclude_errors(results: list[list[TwoEntries]]) -> Findings:
    rows: list[FigureRow] = []
    for (kind, source), group in zip(TABLE_4_2.items(), results, strict=True):
        for method in group[0].errors:
            values = [error for each in group for error in each.errors[method]]
            published = source if method == "fold-in" else ("", "", "")
            rows += _spread(f"{kind}, 2 entries, {method}", "Table 4.2", values, published, SYNTHETIC)
        rows += [
            row(
                "Table 4.2",
                f"{kind}, 90% intervals that hold, {columns}, %",
                percent(float(np.mean([each.covered[columns] for each in group]))),
                note="the source gives no intervals",
            )
            for columns in group[0].covered
        ]
    return Findings(tuple(rows))


def _conclude_four(results: list[list[dict[str, list[float]]]]) -> Findings:
    rows: list[FigureRow] = []
    for noise, group in zip((0.02, LOW_NOISE), results, strict=True):
        for method in group[0]:
            values = [error for each in group for error in each[method]]
            metric = f"scale-out from 1 and 4 nodes, noise {noise:.1%}, {method}"
            rows += _spread(metric, "Table 4.2", values, TABLE_4_2["scale-out"], OUT_NOTE)
    return Findings(tuple(rows))


def _conclude_more(results: list[list[dict[str, list[float]]]]) -> Findings:
    rows: list[FigureRow] = []
    (group,) = results
    note = "three traits and a level cannot be told by two entries; columns are designed"
    for entries in group[0]:
        values = [error for each in group for error in each[entries]]
        metric = f"scale-up, {entries} entries, chosen, designed columns"
        rows += _spread(metric, "Table 4.2", values, ("", "", ""), note)
    return Findings(tuple(rows))


def _conclude_densities(results: list[list[Densities]]) -> Findings:
    rows: list[FigureRow] = []
    lines: list[PlotSeries] = []
    for kind, group in zip(TABLE_4_2, results, strict=True):
        for method in group[0]:
            by_entries = {
                entries: [error for each in group for error in each[method][entries]]
                for entries in group[0][method]
            }
            worst = [percent(float(np.percentile(values, 90))) for values in by_entries.values()]
            lines.append(PlotSeries(f"{kind}: {method}", tuple(by_entries), worst))
            if method == "fold-in":
                rows += [
                    row(
                        "Figure 4.3",
                        f"{kind}, {entries} entries, 90th percentile over workloads, %",
                        value,
                        source="high at 1, low from 2, little gain after 4 to 5",
                        note=SYNTHETIC,
                    )
                    for entries, value in zip(by_entries, worst, strict=True)
                ]
    title = "90th percentile of the error by number of entries"
    return Findings(tuple(rows), (Plot("Figure 4.3", title, "entries", "error, %", tuple(lines)),))


def _conclude_exhaustive(results: list[list[dict[str, list[float]]]]) -> Findings:
    (group,) = results
    note = "7,200 columns; 8 measurements either way; errors are of the joint prediction in both"
    rows: list[FigureRow] = []
    for name, source in (
        ("exhaustive", ("11.6 to 16.5", "12.1 to 17.6", "13 to 18")),
        ("parallel", ("6.9 to 12.7 by its four errors", "", "")),
    ):
        values = [error for each in group for error in each[name]]
        rows += _spread(f"{name} classification", "Table 4.3", values, source, note)
    return Findings(tuple(rows))


def tables(seeds: int) -> tuple[Part, ...]:
    """Parts that recompute the tables and the figure.

    Args:
        seeds: number of synthetic matrices to average over.
    """
    kinds = tuple((kind,) for kind in TABLE_4_2)
    return (
        over_seeds("errors", errors, seeds, _conclude_errors, kinds, figures=("Table 4.2",)),
        over_seeds(
            "four nodes", four_nodes, seeds, _conclude_four, ((0.02,), (LOW_NOISE,)), figures=("Table 4.2",)
        ),
        over_seeds("more entries", more_entries, seeds, _conclude_more, figures=("Table 4.2",)),
        over_seeds("densities", densities, seeds, _conclude_densities, kinds, figures=("Figure 4.3",)),
        over_seeds("exhaustive", compare, seeds, _conclude_exhaustive, figures=("Table 4.3",)),
    )

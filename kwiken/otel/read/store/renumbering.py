"""Numbers of names that another process gave, as this process would have given them in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.otel.read.columns import MAX_KINDS, MAX_NAMES, NO_TEXT, Ints, Names, Rows

_TEXTS_OF_OWN: Final = ("service", "stage", "replica", "node", "plan")


@dataclass(frozen=True)
class NameTables:
    """Names of the spans of some files, in the order of their numbers; see `Names` for the fields.

    Attributes:
        operations: service and operation, at full length.
        texts: other texts at full length.
        simulated: what times count from, as `Epoch` keeps it.
    """

    operations: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]
    kinds: tuple[str, ...]
    stated: Mapping[int, Mapping[str, str]]
    from_paths: Mapping[int, int]
    methods: Mapping[int, frozenset[str]]
    homes: Mapping[int, tuple[str, str]]
    simulated: bool | None

    @classmethod
    def of(cls, names: Names, *, simulated: bool | None) -> NameTables:
        """Tables of some names."""
        return cls(
            operations=names.full_operations(),
            texts=names.full_texts(),
            kinds=tuple(names.kinds),
            stated=names.stated,
            from_paths=names.from_paths,
            methods={op: frozenset(found) for op, found in names.methods.items()},
            homes=names.homes,
            simulated=simulated,
        )

    def put_into(self, names: Names) -> Renumbering:
        """Give all names a number among those of this process, as reading the same files next would.

        Raises:
            InputError: there are too many operations or texts.
        """
        ops = [names.operation(*pair) for pair in self.operations]
        texts = [names.text(text) for text in self.texts]
        for op, stated in self.stated.items():
            names.stated.setdefault(ops[op], stated)
        for op, instead in self.from_paths.items():
            names.from_paths.setdefault(ops[op], ops[instead])
        for op, methods in self.methods.items():
            names.methods.setdefault(ops[op], set()).update(methods)
        for text, home in self.homes.items():
            names.homes.setdefault(texts[text], home)
        kinds = [names.kind(kind) for kind in self.kinds]
        return Renumbering(_with_none(ops), _with_none(texts), _with_none(kinds))


@dataclass(frozen=True)
class Renumbering:
    """By number of another process: (n + 1,) numbers of this one; the last is -1, which stands for none."""

    ops: Ints
    texts: Ints
    kinds: Ints

    def apply(self, part: tuple[Rows, Rows, Rows]) -> tuple[Rows, Rows, Rows]:
        """Rows of `SPAN`, `OWN` and `LINK` with the numbers of this process."""
        spans, owns, links = (rows.copy() for rows in part)
        for column, numbers in (
            ("op", self.ops),
            ("callee", self.ops),
            ("kind", self.kinds),
            ("instance", self.texts),
        ):
            spans[column] = numbers[spans[column]]
        for column in _TEXTS_OF_OWN:
            owns[column] = self.texts[owns[column]]
        return spans, owns, links


def near_bounds(names: Names) -> bool:
    """Whether names are so many that later ones are left out, which depends on all names before."""
    return len(names.texts) >= MAX_NAMES // 2 or len(names.kinds) >= MAX_KINDS - 1


def _with_none(numbers: list[int]) -> Ints:
    return np.array([*numbers, NO_TEXT], np.int64)

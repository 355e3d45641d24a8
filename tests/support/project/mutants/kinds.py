"""Mutants of a source file: small changes of meaning that tests of behaviour should notice.

Left alone is what has no behaviour of its own: annotations, decorators, bases of classes, imports, assertions
(they narrow types), `strict` of a `zip` (it asserts equal lengths), the words of an error, and numbers below the
tolerances of rounding.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Final, NamedTuple

ROUNDING: Final = 1e-6  # numbers below it stand for errors of rounding
COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
COUNTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
EXTREMES: Final = {
    one: other
    for pair in (
        ("min", "max"),
        ("minimum", "maximum"),
        ("argmin", "argmax"),
        ("floor", "ceil"),
        ("cummin", "cummax"),
        ("any", "all"),
    )
    for one, other in (pair, pair[::-1])
}
SORTS: Final = {"sorted", "sort"}  # of lists; arrays are turned round afterwards
JOINED: Final = (ast.List, ast.Tuple, ast.JoinedStr, ast.ListComp)  # `+` and `*` of these are no arithmetic


class Mutant(NamedTuple):
    """One change of a file.

    Attributes:
        path: file, from the root of the tree.
        inside: class and function around the change, joined by dots.
        kind: operator that made the change.
        line: first line of what is changed, from 1.
        before: source text that is changed.
        after: source text in its place.
        start: place of `before` in the file's bytes.
    """

    path: str
    inside: str
    kind: str
    line: int
    before: str
    after: str
    start: int

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        old = self.before.encode()
        return source[: self.start] + self.after.encode() + source[self.start + len(old) :]


def mutants(path: str, source: bytes) -> Iterator[Mutant]:
    """All mutants of a file, in the order of the source."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for inside, kind, node, after in _changes(ast.parse(source), "", default=False):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        if not before.startswith("elif"):
            yield Mutant(path, inside, kind, node.lineno, before, after, start)


Change = tuple[str, str, ast.expr | ast.stmt, str]


def _changes(node: ast.AST, inside: str, *, default: bool) -> Iterator[Change]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{inside}.{node.name}".lstrip(".")
    if isinstance(node, ast.expr):
        for kind, new in _of_expression(node):
            yield inside, "default" if default and kind == "constant" else kind, node, f"({ast.unparse(new)})"
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not _only_for_types(node):
        yield inside, "negated", node.test, f"(not ({ast.unparse(node.test)}))"
    if isinstance(node, ast.comprehension):
        yield from ((inside, "negated", test, f"(not ({ast.unparse(test)}))") for test in node.ifs)
    if isinstance(node, ast.AugAssign) and type(node.op) in COUNTED:
        turned = ast.AugAssign(node.target, COUNTED[type(node.op)](), node.value)
        yield inside, "arithmetic", node, ast.unparse(turned)
    if isinstance(node, ast.stmt) and _droppable(node):
        yield inside, "dropped", node, "pass"
    for child, is_default in _children(node):
        yield from _changes(child, inside, default=default or is_default)


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Parts of a node in which mutants are looked for, and whether each is a default of an argument or a field."""
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.If) and _only_for_types(node):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    left_out = {"annotation", "returns", "decorator_list", "bases"}
    if isinstance(node, ast.ClassDef):
        left_out.add("keywords")
    for name, value in ast.iter_fields(node):
        if name in left_out:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                field = isinstance(node, ast.ClassDef) and isinstance(child, ast.AnnAssign)
                yield child, field or (isinstance(node, ast.arguments) and name.endswith("defaults"))


def _only_for_types(node: ast.If | ast.While | ast.IfExp) -> bool:
    return ast.unparse(node.test) == "TYPE_CHECKING"


def _droppable(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.If(orelse=[]):
            return not _only_for_types(node)
    return False


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    new = copy.deepcopy(node)
    match new:
        case ast.Compare():
            for place, op in enumerate(new.ops):
                for other in COMPARED[type(op)]:
                    changed = copy.deepcopy(new)
                    changed.ops[place] = other()
                    yield "comparison", changed
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
            yield "and/or", new
        case ast.BinOp() if type(new.op) in COUNTED and not (_joined(new.left) or _joined(new.right)):
            new.op = COUNTED[type(new.op)]()
            yield "arithmetic", new
        case ast.Constant():
            yield from (("constant", ast.Constant(value)) for value in _other_values(new.value))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            yield from _of_call(new, name)


def _other_values(value: object) -> tuple[float, ...]:
    """Values in place of a constant: twice and half a number."""
    match value:
        case bool():
            return (not value,)
        case int():
            return (2 * value or 1, value // 2) if value > 1 else (2 * value or 1,)
        case float() if value == 0 or value >= ROUNDING:
            return (2 * value or 1.0, value / 2 or -1.0)
    return ()


def _of_call(call: ast.Call, name: str) -> Iterator[tuple[str, ast.expr]]:
    if name in EXTREMES:
        new = copy.deepcopy(call)
        if isinstance(new.func, ast.Name):
            new.func.id = EXTREMES[name]
        elif isinstance(new.func, ast.Attribute):
            new.func.attr = EXTREMES[name]
        yield "min/max", new
    elif name in {"argsort", "lexsort"} or ast.unparse(call.func) == "np.sort":
        yield "order", ast.Subscript(call, ast.Slice(step=ast.UnaryOp(ast.USub(), ast.Constant(1))))
    elif name in SORTS:
        rest = [word for word in call.keywords if word.arg != "reverse"]
        turned = [] if len(rest) < len(call.keywords) else [ast.keyword("reverse", ast.Constant(value=True))]
        yield "order", ast.Call(call.func, call.args, rest + turned)


def _joined(node: ast.expr) -> bool:
    return isinstance(node, JOINED) or (isinstance(node, ast.Constant) and isinstance(node.value, str))

"""Generate all mutations of a module. A mutation is one edit of the module's source.

The generator finds places with the syntax tree but edits the source text. The diff of a mutation therefore shows only
the fault. Code without effect on behaviour is not mutated: annotations, docstrings, messages and assertions.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_COMPARISONS = {
    ast.Eq: ("==", ["!="]),
    ast.NotEq: ("!=", ["=="]),
    ast.Lt: ("<", ["<=", ">"]),
    ast.LtE: ("<=", ["<", ">="]),
    ast.Gt: (">", [">=", "<"]),
    ast.GtE: (">=", [">", "<="]),
    ast.In: ("in", ["not in"]),
    ast.NotIn: ("not in", ["in"]),
    ast.Is: ("is", ["is not"]),
    ast.IsNot: ("is not", ["is"]),
}
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list", "set": "list", "frozenset": "list"}
_PROSE = re.compile(r"\s")
_FOR_PEOPLE = {"__repr__", "__str__", "reasons", "describe", "explain", "table"}
"""Functions that produce text for people. `table` produces the output of `kubectl get`."""

Edit = tuple[int, int, str]
"""The start and end offsets of the replaced bytes (end exclusive), and the new source."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One edit: its module, its function ("" at module level), the kind of change, and the changed lines.

    `lines` are the first and last line of the statement, or of the head of a compound statement. `number` distinguishes
    equal edits. The name of a mutation contains no line number, so that changes elsewhere in the module do not rename
    it.
    """

    module: str
    function: str
    kind: str
    was: str
    becomes: str
    number: int
    lines: tuple[int, int]
    edit: Edit

    @property
    def name(self) -> tuple[str, str, str, str, int]:
        """The name of the mutation in files."""
        return (self.module, self.function, self.was, self.becomes, self.number)

    def apply(self, text: str) -> str:
        """Return the text of the module with the mutation applied."""
        begin, end, new = self.edit
        source = text.encode()
        return (source[:begin] + new.encode() + source[end:]).decode()

    def difference(self, text: str) -> str:
        """Return the mutation as a unified diff."""
        file = self.module.replace(".", "/") + ".py"
        before, after = text.splitlines(keepends=True), self.apply(text).splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, f"a/{file}", f"b/{file}", n=2))


def mutations(module: str, text: str) -> list[Mutation]:
    """Return all mutations of a module, in the order of its text."""
    finder = _MutationFinder(text)
    finder.visit(ast.parse(text))
    found, numbers = [], Counter[tuple[str, str, str]]()
    for (begin, end, new), kind, function, lines in sorted(set(finder.found)):
        was, becomes = _changed_lines(finder.source, begin, end, new)
        if was == becomes:
            continue
        numbers[function, was, becomes] += 1
        number = numbers[function, was, becomes]
        found.append(Mutation(module, function, kind, was, becomes, number, lines, (begin, end, new)))
    return found


def _changed_lines(source: bytes, begin: int, end: int, new: str) -> tuple[str, str]:
    """Return the affected lines before and after an edit, with runs of whitespace replaced by a space."""
    first = source.rfind(b"\n", 0, begin) + 1
    last = source.find(b"\n", end)
    was = source[first : last if last >= 0 else None].decode()
    becomes = (source[first:begin] + new.encode() + source[end : last if last >= 0 else None]).decode()
    return " ".join(was.split()), " ".join(becomes.split())


class _MutationFinder(ast.NodeVisitor):
    """Walks a module and collects edits with their kind, function and lines."""

    def __init__(self, text: str) -> None:
        self.source = text.encode()
        self._starts = [0, *(each.end() for each in re.finditer(rb"\n", self.source))]
        self._functions: list[str] = []
        self._lines = (1, 1)
        self.found: list[tuple[Edit, str, str, tuple[int, int]]] = []

    def _span(self, node: ast.AST) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _text(self, node: ast.AST) -> str:
        begin, end = self._span(node)
        return self.source[begin:end].decode()

    def _add(self, kind: str, begin: int, end: int, new: str) -> None:
        self.found.append(((begin, end, new), kind, ".".join(self._functions), self._lines))

    def _replace(self, kind: str, node: ast.AST, new: str) -> None:
        self._add(kind, *self._span(node), new)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._lines = _head(node)
        super().visit(node)

    # Nodes that are not mutated.

    def visit_Assert(self, node: ast.Assert) -> None:
        """Skip assertions. They only state what types cannot express."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip f-strings. Most of them are messages, and Python 3.11 has no positions for their parts."""

    def visit_arg(self, node: ast.arg) -> None:
        """Skip annotations."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {each.id for each in node.targets if isinstance(each, ast.Name)}
        is_alias = not self._functions and (
            isinstance(node.value, ast.Subscript)
            or (isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr))
        )
        if "__all__" in names or is_alias or _calls(node.value, "TypeVar"):
            return
        if any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
            self._replace("statement", node, "pass")
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _FOR_PEOPLE:
            return
        for each in (*node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.visit(each)
        self._inside(node.name, node.body)

    def _inside(self, name: str, body: list[ast.stmt]) -> None:
        self._functions.append(name)
        for each in body:
            self.visit(each)
        self._functions.pop()

    # Statements.

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _calls(node.value, "logger") or _calls(node.value, "_log"):
            return  # a docstring or a log message
        self._replace("statement", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace("statement", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace("statement", node, "pass")  # the text of an error is a message

    def visit_Delete(self, node: ast.Delete) -> None:
        self._replace("statement", node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace("statement", node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace("statement", node, "pass")

    def visit_If(self, node: ast.If) -> None:
        if _is_type_checking(node.test):
            return
        self._test(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._test(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for each in node.ifs:
            self._test(each)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._test(node.guard)
        self.generic_visit(node)

    def _test(self, test: ast.expr) -> None:
        inner = test.target if isinstance(test, ast.NamedExpr) else None
        named = f"({self._text(test)})" if inner is not None else ""
        self._replace("condition", test, f"({named} or True)" if named else "True")
        self._replace("condition", test, f"({named} and False)" if named else "False")

    # Expressions.

    def visit_Compare(self, node: ast.Compare) -> None:
        for (left, right), operator in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            sign, others = _COMPARISONS[type(operator)]
            begin, end = self._between(left, right, re.escape(sign).replace(r"\ ", r"\s+"))
            for each in others:
                self._add("comparison", begin, end, each)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        sign, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        begin, end = self._span(node)
        signs = [self._between(left, right, rf"\b{sign}\b\s*") for left, right in pairwise(node.values)]
        self._add("boolean part", begin, signs[0][1], "")
        for first, behind in zip(signs, [*(each[0] for each in signs[1:]), end], strict=True):
            self._add("boolean part", first[0], behind, " " if behind < end else "")
            self._add("boolean part", first[0], first[0] + len(sign), other)
        self.generic_visit(node)

    def _between(self, left: ast.AST, right: ast.AST, pattern: str) -> tuple[int, int]:
        """Return the start and end offsets of the operator between two operands."""
        begin, end = self._span(left)[1], self._span(right)[0]
        found = re.search(pattern.encode(), self.source[begin:end])
        assert found, f"{pattern} is between its operands"
        return begin + found.start(), begin + found.end()

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("boolean part", node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not isinstance(node.op, ast.Mod):  # mostly string formatting
            self._replace("operand", node, f"({self._text(node.left)})")
            self._replace("operand", node, f"({self._text(node.right)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._replace("constant", node, str(not node.value))
            case int():
                self._replace("constant", node, str(node.value + 1))
                if node.value > 0:
                    self._replace("constant", node, str(node.value - 1))
            case str() if not _PROSE.search(node.value):
                self._replace("constant", node, '""' if node.value else '"mutated"')

    def visit_Call(self, node: ast.Call) -> None:
        parts = [*node.args, *node.keywords]
        if node.keywords and not any(isinstance(each, ast.Starred) for each in node.args):
            for each in node.keywords:
                self._drop("argument", parts, each)
        if len(node.args) > 1 and len(parts) > 1:
            self._drop("argument", parts, node.args[-1])
        for left, right in pairwise(node.args):
            if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
                begin, end = self._span(left)[0], self._span(right)[1]
                gap = self.source[self._span(left)[1] : self._span(right)[0]].decode()
                self._add("argument", begin, end, f"{self._text(right)}{gap}{self._text(left)}")
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS and node.args:
            self._replace("call", node.func, _CALLS[node.func.id])
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if len(node.elts) == 2 and isinstance(node.ctx, ast.Load):
            for each in node.elts:
                self._replace("element", node, f"({self._text(each)},)")
            self.generic_visit(node)
        else:
            self._elements(node, node.elts)

    def visit_List(self, node: ast.List) -> None:
        self._elements(node, node.elts)

    def visit_Set(self, node: ast.Set) -> None:
        self._elements(node, node.elts)

    def _elements(self, node: ast.Tuple | ast.List | ast.Set, elements: list[ast.expr]) -> None:
        if isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and len(elements) > 1:
            for each in elements:
                self._drop("element", elements, each)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        keys = node.keys
        if None not in keys and len(keys) > 1:
            for number, value in enumerate(node.values):
                key = keys[number]
                assert key is not None
                if number + 1 < len(keys):
                    following = keys[number + 1]
                    assert following is not None
                    self._add("element", self._span(key)[0], self._span(following)[0], "")
                else:
                    self._add("element", self._span(node.values[number - 1])[1], self._span(value)[1], "")
        self.generic_visit(node)

    def _drop(self, kind: str, parts: Sequence[ast.AST], part: ast.AST) -> None:
        """Remove one of several elements and its comma."""
        number = next(number for number, each in enumerate(parts) if each is part)
        begin, end = self._span(part)
        if number + 1 < len(parts):
            self._add(kind, begin, self._span(parts[number + 1])[0], "")
        elif number:
            self._add(kind, self._span(parts[number - 1])[1], end, "")
        else:
            self._add(kind, begin, end, "")


def _head(node: ast.stmt) -> tuple[int, int]:
    """Return the first and last line of a statement, without nested statements."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return node.lineno, max(last, node.lineno)


def _calls(node: ast.expr, name: str) -> bool:
    """Return whether a node calls a function of this name, or a method of an object of this name."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return isinstance(called, ast.Name) and called.id == name


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"

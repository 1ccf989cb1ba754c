"""A mutation is one edit that changes the behaviour of a module, and its name does not depend on other lines."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutation.__main__ import MODULES
from tests.mutation.mutations import mutations
from tests.mutation.patched_import import text_of


def _becomes(text: str) -> set[str]:
    return {each.becomes for each in mutations("some.module", text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f = a < b", {"f = a <= b", "f = a > b"}),
        ("f = a is not b", {"f = a is b"}),
        ("f = a not  in b", {"f = a in b"}),
        ("f = (a or b) and c", {"f = c", "f = (a or b) ", "f = (a or b) or c", "f = (b) and c", "f = (a ) and c"}),
        ("f = not a", {"f = (a)"}),
        ("f = 2", {"f = 3", "f = 1"}),
        ("f = 0", {"f = 1"}),
        ("f = True", {"f = False"}),
        ("f = 'a'", {'f = ""'}),
        ("f = ''", {'f = "mutated"'}),
        ("f = a + b", {"f = (a)", "f = (b)"}),
        ("a.b()", {"pass"}),
        ("a.b = c", {"pass"}),
        ("a += b", {"pass"}),
        ("raise a", {"pass"}),
        ("f = a(b, c)", {"f = a(b)", "f = a(c, b)"}),
        ("f = a(b, c=d)", {"f = a(b)"}),
        ("f = any(a)", {"f = all(a)"}),
        ("f = [a, b]", {"f = [b]", "f = [a]"}),
        ("f = a, b", {"f = (a,)", "f = (b,)"}),
        ("f = {a: b, c: d}", {"f = {c: d}", "f = {a: b}"}),
        ("f = [a for a in b if c]", {"f = [a for a in b if True]", "f = [a for a in b if False]"}),
        ("f = a if b else c", {"f = a if True else c", "f = a if False else c"}),
    ],
)
def test_behaviour_is_mutated(text: str, expected: set[str]) -> None:
    found = _becomes(text)
    assert {" ".join(each.split()) for each in expected} <= found
    for each in mutations("some.module", text):
        ast.parse(each.apply(text))


@pytest.mark.parametrize(
    "text",
    [
        "Name = Literal['a', 'b']",
        "T = TypeVar('T')",
        "__all__ = ['a']",
        '"""A docstring."""',
        "assert a < 2",
        "logger.info('a')",
        "a: Literal[1]",
        "f = f'{a + 1}'",
        "if TYPE_CHECKING:\n    import a",
        "def __str__(self):\n    return a + b",
        "@dataclass(frozen=True)\nclass A:\n    a: int",
        "f = 'a sentence for a person'",
    ],
)
def test_text_without_effect_is_not_mutated(text: str) -> None:
    assert _becomes(text) == set()


def test_mutation_records_its_function_and_changes_one_place() -> None:
    text = "class A:\n    def b(self):\n        # ä\n        return self.c == 'ä' and self.d\n"
    (found,) = [each for each in mutations("some.module", text) if each.kind == "comparison"]
    assert (found.function, found.lines) == ("A.b", (4, 4))
    assert found.apply(text) == text.replace("==", "!=")
    assert found.difference(text).splitlines()[-2:] == [
        "-        return self.c == 'ä' and self.d",
        "+        return self.c != 'ä' and self.d",
    ]


def test_name_of_a_mutation_does_not_depend_on_line_numbers() -> None:
    text = "def f():\n    return a < b\n"
    names = [each.name for each in mutations("some.module", text)]
    assert [each.name for each in mutations("some.module", f"# new\nb = c\n\n\n{text}")] == names


@pytest.mark.parametrize("module", MODULES)
def test_every_mutation_of_the_reference_has_a_unique_name_and_compiles(module: str) -> None:
    text = text_of(module)
    found = mutations(module, text)
    assert [name for name, count in Counter(each.name for each in found).items() if count > 1] == []
    for each in found[::10]:
        ast.parse(each.apply(text))

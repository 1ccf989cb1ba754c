"""Import a mutated module without changing files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parents[2]


def module_file(module: str) -> Path:
    """Return the file in this checkout that has or had the source text of a module."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def text_of(module: str) -> str:
    """Return the source text of a module in this checkout."""
    return module_file(module).read_text(encoding="utf-8")


def instead(module: str, text: str) -> None:
    """Import `module` from this text, only in this process. Raises `RuntimeError` if it is already imported."""
    if module in sys.modules:
        raise RuntimeError(f"{module} has been imported already")
    sys.meta_path.insert(0, _PatchedFinder(module, text))


class _PatchedFinder(MetaPathFinder):
    def __init__(self, module: str, text: str) -> None:
        self._module, self._text = module, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the import spec of the module, with a loader for the replacement text."""
        spec = PathFinder.find_spec(fullname, path) if fullname == self._module else None
        if spec is not None and spec.origin is not None:
            spec.loader = _PatchedLoader(fullname, spec.origin, self._text)
        return spec


class _PatchedLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the replacement text and return the code."""
        return compile(self._text, self.path, "exec", dont_inherit=True)

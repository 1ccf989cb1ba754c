"""Remove private data, such as credentials, secrets and the home folder, from strings before they are written."""

import functools
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

HIDDEN = "***"
SOUNDS_SECRET = re.compile(r"token|passw|secret|credential|private_?key|api_?key|access_?key", re.IGNORECASE)

_SHORTEST = 8
"""The minimum length of a secret. It is 50 % higher for a string of letters only, which may be an ordinary word."""

_USER = r"""[^/\s@"'\\<>]+"""  # user and password before the host of a URL
_IN_URL = re.compile(f"://{_USER}@")


@functools.cache
def _pattern() -> tuple[re.Pattern[str], tuple[str, ...]]:
    named = [value for name, value in os.environ.items() if SOUNDS_SECRET.search(name)]
    secrets = [each for each in named if len(each) >= (1.5 * _SHORTEST if each.isalpha() else _SHORTEST)]
    in_json = [json.dumps(each)[1:-1] for each in secrets]
    in_xml = [escape(each, {'"': "&quot;"}) for each in secrets]
    words = sorted({*secrets, *in_json, *in_xml}, key=len, reverse=True)
    home = os.environ.get("HOME", "").rstrip("/")
    known = "|".join(map(re.escape, words)) or r"(?!)"
    folder = rf"(?<![\w/.~-]){re.escape(home)}(?![\w.-])" if len(home) > 1 else r"(?!)"
    in_url = f"(?<=://){_USER}(?=@)"
    bearer = r"(?ai:(?<=bearer )|(?<=basic ))[\w.~+/=-]{16,}"
    pattern = re.compile(f"(?P<home>{folder})|{known}|{in_url}|{bearer}")
    return pattern, (*words, *([home] if len(home) > 1 else []))


def private(text: str) -> str:
    """Return a string in which `***` replaces each secret and `~` replaces the home folder."""
    pattern, words = _pattern()
    return pattern.sub(lambda found: "~" if found["home"] else HIDDEN, text) if _may_be_private(text, words) else text


def _may_be_private(text: str, words: Sequence[str]) -> bool:
    """Return whether a string may contain private data. This check is a hundred times as fast as the full pattern."""
    if any(each in text for each in words) or _IN_URL.search(text):
        return True
    small = text.lower()
    return "bearer " in small or "basic " in small


def private_values(value: Any) -> Any:
    if isinstance(value, str):
        return private(value)
    if isinstance(value, Mapping):
        return {private(key): private_values(each) for key, each in value.items()}
    return [private_values(each) for each in value] if isinstance(value, (list, tuple)) else value


def without_secrets(value: Any) -> Any:
    """Return an API object without the values of secret fields, and without the annotation of `kubectl apply`."""
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    if isinstance(value.get("value"), str) and SOUNDS_SECRET.search(str(value.get("name", ""))):
        return {**value, "value": HIDDEN}
    return {
        key: HIDDEN if isinstance(each, str) and SOUNDS_SECRET.search(key) else without_secrets(each)
        for key, each in value.items()
        if key != "kubectl.kubernetes.io/last-applied-configuration"
    }

"""Syntax rules for names, as functions from a text to the complaints about it.

Kubernetes words each complaint with the rule, an example and the regular expression; clients show them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Rule = Callable[[str], list[str]]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_QUALIFIED})?"


def _regex(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{each}', " for each in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _longer(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _syntax(text: str, pattern: str, limit: int, complaint: str) -> list[str]:
    found = [_longer(limit)] if len(text.encode()) > limit else []
    if not re.fullmatch(pattern, text):
        found.append(complaint)
    return found


def dns_label(text: str) -> list[str]:
    """RFC 1123 label: lower case, digits and inner dashes, at most 63."""
    complaint = _regex(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character",
        _LABEL,
        "my-name",
        "123-abc",
    )
    return _syntax(text, _LABEL, 63, complaint)


def dns_subdomain(text: str) -> list[str]:
    """RFC 1123 subdomain: labels joined with dots, at most 253."""
    complaint = _regex(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character",
        _SUBDOMAIN,
        "example.com",
    )
    return _syntax(text, _SUBDOMAIN, 253, complaint)


def dns_1035_label(text: str) -> list[str]:
    """RFC 1035 label: like an RFC 1123 label, but the first character is a letter."""
    complaint = _regex(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character",
        _LABEL_1035,
        "my-name",
        "abc-123",
    )
    return _syntax(text, _LABEL_1035, 63, complaint)


def label_value(text: str) -> list[str]:
    """A label's value: empty, or at most 63 of letters, digits and inner dashes, dots and underscores."""
    complaint = _regex(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
        "and end with an alphanumeric character",
        _LABEL_VALUE,
        "MyValue",
        "my_value",
        "12345",
    )
    return _syntax(text, _LABEL_VALUE, 63, complaint)


def qualified_name(text: str) -> list[str]:
    """A label or annotation key: a name of at most 63, with a DNS subdomain and a slash before it if wanted."""
    prefix, slash, name = text.rpartition("/")
    characters = "must consist of alphanumeric characters, '-', '_' or '.'"
    rule = f"{characters}, and must start and end with an alphanumeric character"
    if text.count("/") > 1:
        complaint = _regex("a qualified name " + rule, _QUALIFIED, "MyName", "my.name", "123-abc")
        return [complaint + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    found: list[str] = []
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += ["prefix part " + each for each in dns_subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part " + _longer(63))
    if not re.fullmatch(_QUALIFIED, name):
        found.append("name part " + _regex(rule, _QUALIFIED, "MyName", "my.name", "123-abc"))
    return found


def port_name(text: str) -> list[str]:
    """An IANA service name, as container ports and target ports carry: at most 15, with a letter in it."""
    found: list[str] = []
    if len(text) > 15:
        found.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]*", text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text and (text.startswith("-") or text.endswith("-")):
        found.append("must not begin or end with a hyphen")
    return found

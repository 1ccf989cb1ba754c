"""Validation rules for names: functions that return the errors in a string, with the messages of Kubernetes."""

import re
from collections.abc import Callable

Rule = Callable[[str], list[str]]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_QUALIFIED})?"

_ENDS = "and must start and end with an alphanumeric character"


def _regex(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{each}', " for each in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _rule(pattern: str, limit: int, message: str, *examples: str) -> Rule:
    matches, complaint = re.compile(pattern).fullmatch, _regex(message, pattern, *examples)

    def check(text: str) -> list[str]:
        if len(text) <= limit and matches(text):
            return []
        found = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
        return found if matches(text) else [*found, complaint]

    return check


dns_label = _rule(
    _LABEL,
    63,
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    "my-name",
    "123-abc",
)
"""RFC 1123 label: lower-case letters, digits and inner dashes, at most 63 characters."""
dns_subdomain = _rule(
    _SUBDOMAIN,
    253,
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    "example.com",
)
"""RFC 1123 subdomain: labels joined with dots, at most 253 characters."""
dns_1035_label = _rule(
    _LABEL_1035,
    63,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
"""RFC 1035 label: like an RFC 1123 label, but the first character is a letter."""
label_value = _rule(
    _LABEL_VALUE,
    63,
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    "MyValue",
    "my_value",
    "12345",
)
"""The value of a label: empty, or at most 63 letters, digits, inner dashes, dots and underscores."""

_QUALIFIED_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_QUALIFIED_EXAMPLES = ("MyName", "my.name", "123-abc")
_qualified_part = _rule(_QUALIFIED, 63, _QUALIFIED_RULE, *_QUALIFIED_EXAMPLES)
_TWO_SLASHES = (
    _regex(f"a qualified name {_QUALIFIED_RULE}", _QUALIFIED, *_QUALIFIED_EXAMPLES)
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)


def qualified_name(text: str) -> list[str]:
    """Validate a label or annotation key: a name of at most 63 characters, optionally with a DNS subdomain prefix."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [_TWO_SLASHES]
    found: list[str] = []
    if slash:
        found = (
            [f"prefix part {each}" for each in dns_subdomain(prefix)] if prefix else ["prefix part must be non-empty"]
        )
    if not name:
        found.append("name part must be non-empty")
    return found + [f"name part {each}" for each in _qualified_part(name)]


def port_name(text: str) -> list[str]:
    """Validate an IANA service name, for container ports and target ports: at most 15 characters, with a letter."""
    sound = re.fullmatch(r"[-a-z0-9]*", text)
    complaints = (
        (len(text) > 15, "must be no more than 15 characters"),
        (not sound, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (not re.search(r"[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" in text, "must not contain consecutive hyphens"),
        (text.startswith("-") or text.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [said for wrong, said in complaints if wrong]

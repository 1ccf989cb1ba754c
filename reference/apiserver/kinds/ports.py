"""Validation of port numbers, names and protocols of Services, EndpointSlices and Pods."""

from typing import Any

from reference.apiserver.kinds import errors, names
from reference.apiserver.kinds.errors import FieldError

PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_number(number: Any, path: str) -> list[FieldError]:
    if isinstance(number, int) and 1 <= number <= 65535:
        return []
    return [errors.invalid(path, number, "must be between 1 and 65535, inclusive")]


def validate_number_or_name(port: Any, path: str) -> list[FieldError]:
    if isinstance(port, str):
        return [errors.invalid(path, port, each) for each in names.port_name(port)]
    return validate_number(port, path)


def validate_protocol(protocol: str, path: str) -> list[FieldError]:
    if not protocol:
        return [errors.required(path)]
    return [] if protocol in PROTOCOLS else [errors.not_supported(path, protocol, PROTOCOLS)]

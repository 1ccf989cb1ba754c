"""The current time in the format of Kubernetes: RFC 3339 in UTC.

Source: `k8s.io/apimachinery` `metav1.Time` for nearly all fields, `metav1.MicroTime` for the times of Leases.
"""

from datetime import UTC, datetime, timedelta


def timestamp(*, ahead: int = 0) -> str:
    """Return the current time plus `ahead` seconds, with a precision of seconds."""
    return (datetime.now(UTC) + timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """Return the current time with a precision of microseconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

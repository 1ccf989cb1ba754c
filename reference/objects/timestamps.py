"""The current time as `metav1.Time` (`k8s.io/apimachinery`, RFC 3339), and as `metav1.MicroTime`, which Leases use."""

from datetime import UTC, datetime, timedelta


def timestamp(*, ahead: int = 0) -> str:
    """Return the current time plus `ahead` seconds, with a precision of seconds."""
    return (datetime.now(UTC) + timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

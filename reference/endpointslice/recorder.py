"""Writes Events about Services. Reasons and messages are those of Kubernetes' controller, so the same alerts work."""

import logging
import time

from reference.client import ApiError, Client, Object
from reference.endpointslice.cpu_services import EventContent
from reference.objects.timestamps import timestamp

logger = logging.getLogger(__name__)


def record(client: Client, service: Object, notice: EventContent) -> None:
    """Write an Event. A failed write is only logged."""
    metadata, now = service["metadata"], timestamp()
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{time.time_ns():x}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
        },
        "type": notice.kind,
        "reason": notice.reason,
        "message": notice.message,
        "source": {"component": "endpoint-slice-controller"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        client.create("events", metadata["namespace"], event)
    except (ApiError, OSError) as error:
        logger.info("Service %s: Event %s not written: %s", metadata["name"], notice.reason, error)

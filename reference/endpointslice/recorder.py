"""Events on Services, for users of the controller.

Names and texts are the same as in Kubernetes' controller, so that existing alerts also work with this controller.
"""

import logging
import time

from reference.client import ApiError, Client, Object
from reference.endpointslice.cpu_services import Notice
from reference.objects.timestamps import timestamp

logger = logging.getLogger(__name__)


class Recorder:
    """Writes Events. A failed write of an Event is only logged."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def sync_failed(self, service: Object, message: str) -> None:
        metadata = service["metadata"]
        text = f"Error updating Endpoint Slices for Service {metadata['namespace']}/{metadata['name']}: {message}"
        self._write(service, "Warning", "FailedToUpdateEndpointSlices", text)

    def cpu_hints(self, service: Object, notice: Notice) -> None:
        """Report that hints in proportion to CPU were added, removed, or refused."""
        if notice.enabled:
            self._write(service, "Normal", "TopologyAwareHintsEnabled", notice.message)
        else:
            self._write(service, "Warning", "TopologyAwareHintsDisabled", notice.message)

    def _write(self, service: Object, kind: str, reason: str, message: str) -> None:
        try:
            self._client.create("events", service["metadata"]["namespace"], event(service, kind, reason, message))
        except (ApiError, OSError) as error:
            logger.info("Service %s: Event %s not written: %s", service["metadata"]["name"], reason, error)


def event(service: Object, kind: str, reason: str, message: str) -> Object:
    """Return an Event about `service`; `kind` is Normal or Warning."""
    metadata = service["metadata"]
    now = timestamp()
    return {
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
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": "endpoint-slice-controller"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }

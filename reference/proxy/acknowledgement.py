"""A thread that writes a Lease with the resource version of the newest change in this node's kernel.

KEP-4444 requires that users can see when a change is in effect, and only the proxies know this. The controller that
writes the status of Services reads the Leases. Only changes of slices with hints cause writes, at most one per 50 ms.
Slow writes block only this thread.
"""

import threading

from reference.client import ApiError, Client, Event, Object
from reference.objects.acknowledgement_lease import NAMESPACE, lease_name, with_revision
from reference.objects.endpoints import any_hints
from reference.objects.timestamps import micro_timestamp

PAUSE_SECONDS = 0.05
RETRY_SECONDS = 0.5
_STOP_SECONDS = 1.0


class Acknowledgement:
    """Writes the Lease of one node. The proxy's thread calls `worked_on` and `in_kernel`, which do not block."""

    def __init__(self, node: str, client: Client) -> None:
        self._node = node
        self._client = client
        self._lease: Object | None = None
        self._hinted: set[tuple[str, str]] = set()
        self._revision = 0
        self._due = False
        self._wanted = 0
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"acknowledge-{node}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Stop writing. Idempotent. A write that is still blocked after one second is abandoned."""
        self._stopping.set()
        self._changed.set()
        if self.thread.is_alive():
            self.thread.join(_STOP_SECONDS)

    def worked_on(self, event: Event) -> None:
        """Record an event before its change is in the kernel. A slice that loses its hints also causes a write."""
        metadata = event.object.get("metadata") or {}
        version = metadata.get("resourceVersion") or ""
        self._revision = max(self._revision, int(version) if version.isdecimal() else 0)
        if event.resource != "endpointslices":
            return
        name = metadata.get("namespace", ""), metadata.get("name", "")
        had = name in self._hinted
        self._hinted.discard(name)
        if event.type != "DELETED" and any_hints(event.object):
            self._hinted.add(name)
            had = True
        self._due = self._due or had

    def in_kernel(self) -> None:
        """Record that the kernel contains the changes of all recorded events."""
        if self._due:
            self._due = False
            self._wanted = self._revision
            self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            if self._stopping.is_set():
                return
            self._changed.clear()
            written = self._write(self._wanted)
            if not written:
                self._changed.set()
            self._stopping.wait(PAUSE_SECONDS if written else RETRY_SECONDS)

    def _write(self, revision: int) -> bool:
        try:
            lease = self._lease or self._read()
            spec = {**(lease.get("spec") or {}), "holderIdentity": self._node, "renewTime": micro_timestamp()}
            self._lease = self._client.update("leases", NAMESPACE, {**with_revision(lease, revision), "spec": spec})
        except (ApiError, OSError):
            self._lease = None
            return False
        return True

    def _read(self) -> Object:
        name = lease_name(self._node)
        try:
            return self._client.get("leases", NAMESPACE, name)
        except ApiError as error:
            if error.code != 404:
                raise
        metadata = {"name": name, "namespace": NAMESPACE}
        return self._client.create("leases", NAMESPACE, {"metadata": metadata, "spec": {"holderIdentity": self._node}})

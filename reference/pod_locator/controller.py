"""The PodLocator controller: maintains a PodLocator for each pod (KEP-536, New PodLocator controller)."""

from reference.client import Client, Key, Object, delete_if_there
from reference.controller import Controller
from reference.pod_locator.index import Locations
from reference.pod_locator.location import says

RESOURCE = "podlocators"


class PodLocatorController(Controller):
    """Creates, updates and deletes PodLocators to match their pods and nodes, without unnecessary writes."""

    def __init__(self, client: Client, *, locations: Locations | None = None) -> None:
        self._locations = locations or Locations()
        super().__init__("pod-locator-controller", client, self._locations, ("pods", "nodes", RESOURCE))

    def _sync(self, key: Key) -> None:
        wanted, existing = self._locations.wanted(key), self._locations.locator(key)
        if wanted is None:
            if existing is not None:
                self._delete(key, existing)
        elif existing is None:
            made = self._client.create(RESOURCE, key[0], {"metadata": {"name": key[1]}, **wanted})
            self._locations.written(made)
        elif says(existing) != wanted:
            changed = {"metadata": existing["metadata"], **wanted}
            self._locations.written(self._client.update(RESOURCE, key[0], changed))

    def _delete(self, key: Key, existing: Object) -> None:
        delete_if_there(self._client, RESOURCE, key)
        self._locations.deleted(existing)

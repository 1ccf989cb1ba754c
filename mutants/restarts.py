"""Components that restart wrongly, or react wrongly to the outage of another component."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from mutants.client_wrappers import Sink, controller_hearing, proxy_hearing
from mutants.data_planes import HOLE
from mutants.mutant import NO_ANSWER, REACHED, REFUSED, WRITTEN, Mutant
from reference.client import Client, Event, Object
from reference.endpointslice import EndpointSliceController
from reference.endpointslice.plan import SlicePlan, plan_service
from reference.proxy import ServiceProxy
from reference.proxy.nftables import KernelTable
from reference.proxy.ruleset import Ruleset

LOOK = 0.02  # seconds between checks of the API server


def _from_the_first_change_on(sink: Sink) -> Sink:
    """Drop the events of existing objects, except nodes."""
    listed = False

    def filtered(event: Event) -> None:
        nonlocal listed
        listed = listed or event.type == "SYNCED"
        if listed or event.resource == "nodes":
            sink(event)

    return filtered


def _until_the_second_list(sink: Sink) -> Sink:
    """Drop all events after the second list."""
    lists = 0

    def filtered(event: Event) -> None:
        nonlocal lists
        if lists < 2:
            sink(event)
        lists += event.type == "SYNCED"

    return filtered


def _newer_versions(sink: Sink) -> Sink:
    """Drop an event with the same resource version as the object's last event."""
    told: dict[str, str] = {}

    def filtered(event: Event) -> None:
        if event.type != "SYNCED":
            metadata = event.object["metadata"]
            before = told.get(metadata["uid"])
            told[metadata["uid"]] = metadata["resourceVersion"]
            if event.type == "MODIFIED" and before == metadata["resourceVersion"]:
                return
        sink(event)

    return filtered


def _touching(client: Client, **options: Any) -> EndpointSliceController:
    """Return a controller that writes every slice when it first syncs a Service."""
    seen: set[str] = set()

    def plan(service: Object, pods: Any, nodes: Any, existing: Iterable[Object], **more: Any) -> SlicePlan:
        existing = list(existing)
        right = plan_service(service, pods, nodes, existing, **more)
        if service["metadata"]["uid"] in seen:
            return right
        seen.add(service["metadata"]["uid"])
        changed = {each["metadata"]["name"] for each in (*right.update, *right.delete)}
        return replace(
            right, update=right.update + tuple(_touched(each) for each in existing if _name(each) not in changed)
        )

    return EndpointSliceController(client, plan=plan, **options)


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _touched(obj: Object) -> Object:
    started = {"example.org/started": str(time.monotonic_ns())}
    return {**obj, "metadata": {**obj["metadata"], "annotations": started}}


class _FlushesBeforeReload(KernelTable):
    """Deletes all rules before it reloads them."""

    def load(self, ruleset: Ruleset) -> None:
        self.delete()
        time.sleep(HOLE)
        super().load(ruleset)


class _LoadsNoExternalPolicy(KernelTable):
    """Loads all rules without the lists for external traffic. The first change to a Service adds its list."""

    def load(self, ruleset: Ruleset) -> None:
        super().load(replace(ruleset, external={}))


class _DeletesRulesWithoutApiServer(ServiceProxy):
    """Deletes its rules while its API server is down."""

    def __init__(self, node_name: str, client: Client, **options: Any) -> None:
        super().__init__(node_name, client, **options)
        self._server = client
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def start(self) -> None:
        super().start()
        self._looking.start()

    def stop(self) -> None:
        self._ended.set()
        if self._looking.is_alive():
            self._looking.join()
        super().stop()

    def synced(self) -> bool:
        """Act as if the deleted rules still existed."""
        with self._lock:
            return self._complete and self._worked == self._delivered

    def _look(self) -> None:
        while not self._ended.wait(LOOK):
            try:
                self._server.get("namespaces", "", "default")
            except OSError:
                self.cleanup()


class _KeepsOldUdpEntries(ServiceProxy):
    """Does not check UDP conntrack entries that are older than its rules."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._kernel._forget_wrong = lambda: None  # type: ignore[method-assign]


class _KeepsOldIPv6UdpEntries(ServiceProxy):
    """Does not check UDP conntrack entries over IPv6 that are older than its rules."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        conntrack = self._kernel._conntrack
        check = conntrack.forget_all_but
        conntrack.forget_all_but = lambda allowed: check({"IPv4": allowed["IPv4"]})  # type: ignore[method-assign]


MUTANTS = [
    Mutant(
        "trusts-resource-versions",
        "The controller treats an object with the same resourceVersion as unchanged, even if another release serves "
        "it differently.",
        symptom=WRITTEN,
        controller=controller_hearing(_newer_versions),
    ),
    Mutant(
        "rewrites-slices-at-any-start",
        "On start, the controller writes every slice once, even if it is unchanged.",
        symptom=WRITTEN,
        controller=_touching,
    ),
    Mutant(
        "knows-only-what-changes",
        "On start, the controller ignores existing Services, pods and slices.",
        symptom=WRITTEN,
        controller=controller_hearing(_from_the_first_change_on),
    ),
    Mutant(
        "routes-only-what-changes",
        "On start, a proxy ignores existing Services and removes their rules.",
        symptom=f"{NO_ANSWER}|{REFUSED}",
        proxy=proxy_hearing(_from_the_first_change_on),
    ),
    Mutant(
        "watches-once",
        "After an outage of the API server, the controller receives no further changes.",
        symptom=f"{REACHED}|{NO_ANSWER}",
        controller=controller_hearing(_until_the_second_list),
    ),
    Mutant(
        "watches-once-as-a-proxy",
        "After an outage of the API server, the proxies receive no further changes.",
        symptom=f"{REACHED}|{NO_ANSWER}",
        proxy=proxy_hearing(_until_the_second_list),
    ),
    Mutant(
        "looks-for-no-older-flows",
        "On start, a proxy does not delete UDP flows to endpoints that were removed while it was down.",
        symptom="server of the flow",
        proxy=_KeepsOldUdpEntries,
    ),
    Mutant(
        "looks-for-no-older-flows-over-ipv6",
        "On start, a proxy does not delete UDP flows over IPv6 to endpoints that were removed while it was down.",
        symptom="server of the flow",
        proxy=_KeepsOldIPv6UdpEntries,
    ),
    Mutant(
        "flushes-before-it-starts",
        "On start, a proxy deletes existing rules, and adds its own rules a moment later.",
        symptom=f"{NO_ANSWER}|{REFUSED}",
        proxy=partial(ServiceProxy, kernel_table=_FlushesBeforeReload),
    ),
    Mutant(
        "starts-without-external-policies",
        "On start, a proxy ignores the externalTrafficPolicy of existing Services.",
        symptom=f"{REACHED}|{NO_ANSWER}",
        proxy=partial(ServiceProxy, kernel_table=_LoadsNoExternalPolicy),
    ),
    Mutant(
        "forgets-all-without-its-server",
        "A proxy deletes its rules while it cannot reach the API server.",
        symptom=f"{NO_ANSWER}|{REFUSED}",
        proxy=_DeletesRulesWithoutApiServer,
    ),
]

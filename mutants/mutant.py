"""A mutant: a component of the reference with one fault, which the suite must detect.

A suite that has never run against a faulty implementation proves nothing when it passes. So each requirement lists
mutants that it kills, and a test checks this. A benign variant has no fault: it is unusual, but correct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from reference.apiserver import ApiServer
from reference.apiserver.kinds import Strategy
from reference.dns import DnsServer
from reference.endpointslice import EndpointSliceController
from reference.pod_locator import PodLocatorController
from reference.proxy import ServiceProxy

REACHED = r"reached"
NO_ANSWER = r"got no answer"
REFUSED = r"was refused"
WRITTEN = r"expected .* observed"

_PARTS = frozenset({"proxy", "controller", "api_server", "pod_locators", "dns", "kinds"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: its name in kebab case, a sentence that describes it, and the similar real bug, if there is one.

    `symptom` is a pattern for the first line of a failure that this fault causes. The other fields are factories of
    components; at least one component differs from the reference. `kinds` are validation rules of the API server.

    `draw` are the values of axes with which the fault shows, for example "names=cloud". It is empty if the fault shows
    with the default values.

    A benign variant lists the features that it `lacks`, and the requirements that it leaves `unmet` because they are
    not mandatory for all implementations.
    """

    name: str
    sentence: str
    provenance: str = ""
    symptom: str = REACHED
    proxy: Callable[..., ServiceProxy] = ServiceProxy
    controller: Callable[..., EndpointSliceController] = EndpointSliceController
    api_server: Callable[..., ApiServer] = ApiServer
    pod_locators: Callable[..., PodLocatorController] = PodLocatorController
    dns: Callable[..., DnsServer] = DnsServer
    kinds: Callable[[], Sequence[Strategy]] = tuple
    lacks: frozenset[str] = frozenset()
    unmet: frozenset[str] = frozenset()
    draw: str = ""

    @property
    def changes(self) -> frozenset[str]:
        """The names of the components that differ from those of the reference."""
        return frozenset(
            each.name for each in fields(self) if each.name in _PARTS and getattr(self, each.name) is not each.default
        )

"""The rules by which the scheduler places pods: which nodes take a pod, and which pods it spreads over zones."""

from collections.abc import Iterator, Mapping

from harness.api.client import Object
from reference.endpointslice.labels import ZONE

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
RULES = ("nodeSelector", "affinity", "tolerations")
"""The fields of a pod's spec that decide which nodes take the pod."""


def refusal(spec: Object, node: Object, *, ready: bool) -> str:
    """Return why a node takes no pods with this spec, for example "cordoned", or "" if it takes them."""
    if (node.get("spec") or {}).get("unschedulable"):
        return "cordoned"
    if not ready:
        return "not ready"
    if taints := untolerated(spec, node):
        return f"tainted with {' '.join(taints)}"
    return "" if _is_selected(spec, node["metadata"]) else "excluded by the nodeSelector or nodeAffinity of the pods"


def untolerated(spec: Object, node: Object) -> list[str]:
    """Return the keys of the taints of a node that repel pods with this spec."""
    taints = (node.get("spec") or {}).get("taints") or ()
    repel = [each for each in taints if each.get("effect") in {"NoSchedule", "NoExecute"}]
    given = spec.get("tolerations") or ()
    return [str(each["key"]) for each in repel if not any(_tolerates(one, each) for one in given)]


def _tolerates(toleration: Object, taint: Object) -> bool:
    exists, key = toleration.get("operator") == "Exists", toleration.get("key") or ""
    of_key = key == taint["key"] or (exists and not key)
    same = exists or (toleration.get("value") or "") == (taint.get("value") or "")
    return of_key and same and (toleration.get("effect") or taint["effect"]) == taint["effect"]


def _is_selected(spec: Object, node: Object) -> bool:
    labels: Object = node.get("labels") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    terms = [each for each in (affinity or {}).get("nodeSelectorTerms") or () if each]  # an empty term selects no node
    fits = affinity is None or any(_selects(each, labels, {"metadata.name": node["name"]}) for each in terms)
    return fits and (spec.get("nodeSelector") or {}).items() <= labels.items()


def _selects(selector: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    known = [_holds(each, labels) for each in selector.get("matchExpressions") or ()]
    known += [_holds(each, fields) for each in selector.get("matchFields") or ()]
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(known)


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values, operator = labels.get(expression["key"]), expression.get("values") or [], expression["operator"]
    if operator in {"Gt", "Lt"}:
        numbers = [int(each) for each in (str(value), *values) if each.isdigit()]
        return len(numbers) > 1 and (numbers[0] > numbers[1] if operator == "Gt" else numbers[0] < numbers[1])
    there = value is not None if operator in {"Exists", "DoesNotExist"} else value in values
    return there is (operator in {"Exists", "In"})


def constraints(spec: Object) -> Iterator[Object]:
    """Yield the topology spread constraints for zones."""
    yield from (each for each in spec.get("topologySpreadConstraints") or () if each.get("topologyKey") == ZONE)


def spreads(spec: Object, labels: Mapping[str, str], per_template: str = "") -> bool:
    """Return whether a constraint or required anti-affinity spreads pods with these labels over the zones.

    With `per_template`, a label, the constraint must count only the pods of one pod template, which have this label.
    Without a label selector, a constraint counts no pods.
    """
    apart = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(_REQUIRED) or ()
    known = [each for each in constraints(spec) if each.get("maxSkew") == 1]
    known = [each for each in known if not per_template or per_template in (each.get("matchLabelKeys") or ())]
    apart = [*known, *(each for each in apart if each.get("topologyKey") == ZONE)]
    return any(_selects(each["labelSelector"], labels, {}) for each in apart if each.get("labelSelector") is not None)

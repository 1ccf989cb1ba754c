"""PodLocators: the node of each pod, for components that would otherwise watch all Pods and all Nodes.

KEP-536 (New PodLocator resource) names no API group and no feature gate, and no Kubernetes release implements it. So
this server always serves PodLocators, in an API group of this project, with the schema of
`reference/pod_locator/crd.yaml`.
"""

from reference.apiserver.kinds import addresses, columns, errors, names
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import STRING, STRING_MAP, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

MOST_IPS = 2  # one for each IP family


class PodLocators(Strategy):
    resource = Resource("trafficdist.dev", "v1alpha1", "PodLocator", "podlocators", "podlocator", ("ploc",))
    shape = of_object(ips=[{"ip": STRING}], nodeName=STRING, nodeLabels=STRING_MAP)
    generation_since = 0
    table = (
        columns.NAME,
        columns.text("Node", "The node that the pod is on.", lambda obj: obj.get("nodeName", "")),
        columns.text(
            "IPs", "The addresses of the pod.", lambda obj: ",".join(each["ip"] for each in obj.get("ips") or [])
        ),
        columns.AGE,
    )

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found, ips, node = super().validate(obj, features), obj.get("ips") or [], obj.get("nodeName") or ""
        if len(ips) > MOST_IPS:
            found.append(errors.too_many("ips", len(ips), MOST_IPS))
        for index, each in enumerate(ips):
            found += addresses.validate_ip(each.get("ip", ""), f"ips[{index}].ip")
        found += errors.violations("nodeName", node, names.dns_subdomain) if node else []
        for key, value in (obj.get("nodeLabels") or {}).items():
            found += errors.violations(f"nodeLabels[{key}]", value, names.label_value)
        return found

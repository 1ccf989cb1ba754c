"""Find out what chooses endpoints instead of a service proxy: a mesh, ingress controller, load balancer, or clients."""

from collections.abc import Iterator

from explain.case import Case, port_name
from explain.causes import Finding, found, listed, many, texts
from harness.api.client import Object

_WAYPOINT, _LAYER_7 = "istio.io/use-waypoint", "service.cilium.io/lb-l7"
_AWS_TYPE = "service.beta.kubernetes.io/aws-load-balancer-type"  # counts if the Service has no class


def to_pods(service: Object) -> str:
    """Return the annotation that makes the load balancer of a Service send traffic to pods, not to nodes, or ""."""
    is_balanced = (service.get("spec") or {}).get("type") == "LoadBalancer"
    return next((key for key in _sending(service) if is_balanced and not key.startswith("cloud")), "")


def _sending(obj: Object) -> Iterator[str]:
    kind = (obj.get("spec") or {}).get("loadBalancerClass") or _annotations(obj).get(_AWS_TYPE)
    for key, value, *kinds in texts("proxy_bypass")["load-balancers"]:
        if value in _annotations(obj).get(key, "").replace(" ", "") and (kind in kinds or not kinds):
            yield key


def choosers(case: Case) -> Iterator[Finding]:
    of_namespace = case.cluster.further["ingresses", case.namespace]
    ingresses = [each for each in of_namespace if case.name in _backends(each)]
    if case.has_tcp:  # meshes and ingress controllers take no other protocol
        keys = texts("proxy_bypass")["pods"]
        names = {keys[key] for key in keys if case.cluster.with_label(case.namespace, key)}
        if names := names | case.cluster.ingress_controllers:
            yield found("clients-choose-endpoints", names=listed(sorted(names)))
        yield from _meshes(case)
        yield from _proxies_of_services(case)
        yield from (one for each in ingresses for one in _of_ingress(case, each))
    for each in (case.service, *ingresses):
        yield from (found("load-balancer-to-pods", key=key) for key in _sending(each))
    if lasting := {port_name(each): _lasting(each) for each in case.spec.get("ports") or () if _lasting(each)}:
        values = {"ports": many(sorted(lasting), "port"), "protocols": listed(sorted({*lasting.values()}))}
        yield found("long-lived-connections", **values)


def _meshes(case: Case) -> Iterator[Finding]:
    spaces = {each["metadata"]["name"]: each for each in case.cluster.further["namespaces", ""]}
    names = sorted(spaces, key=lambda each: (each != case.namespace, each))
    for mesh in texts("proxy_bypass")["namespaces"]:
        key, value = mesh["key"], mesh["value"]
        given = {each: (_annotations(spaces[each]) | _labels(spaces[each])).get(key) for each in names}
        if enrolled := [each for each in names if given[each] and given[each] == (value or given[each])]:
            first = enrolled[0]
            of = {"label": f"{key}={given[first]}", "namespaces": many(enrolled, "namespace"), "first": first}
            out = f"kubectl {mesh['verb']} namespace {first} {key}-"
            yield found(mesh["cause"], take_out=out, program=mesh["program"], does=mesh["does"], **of)


def _proxies_of_services(case: Case) -> Iterator[Finding]:
    mine = [each for each in case.cluster.further["namespaces", ""] if each["metadata"]["name"] == case.namespace]
    waypoint = next((name for each in (case.service, *mine) if (name := _labels(each).get(_WAYPOINT))), "none")
    if waypoint != "none":
        change = case.kubectl(f"label {_WAYPOINT}=none --overwrite")
        yield found("service-behind-a-proxy", key=_WAYPOINT, proxy=f"waypoint {waypoint}", change=change)
    if _annotations(case.service).get(_LAYER_7) == "enabled":
        yield found("service-behind-a-proxy", key=_LAYER_7, proxy="Envoy", change=case.kubectl(f"annotate {_LAYER_7}-"))


def _backends(ingress: Object) -> set[str]:
    spec = ingress.get("spec") or {}
    paths = (path for rule in spec.get("rules") or () for path in (rule.get("http") or {}).get("paths") or ())
    backends = [spec.get("defaultBackend") or {}, *(each.get("backend") or {} for each in paths)]
    return {str((each.get("service") or {}).get("name", "")) for each in backends}


def _of_ingress(case: Case, ingress: Object) -> Iterator[Finding]:
    name, annotations = ingress["metadata"]["name"], _annotations(ingress)
    kind = (ingress.get("spec") or {}).get("ingressClassName") or annotations.get("kubernetes.io/ingress.class") or ""
    for word, by in texts("proxy_bypass")["ingresses"].items():
        given = annotations if by["of"] == "ingress" else _annotations(case.service)
        if word in kind and given.get(by["key"]) != "true":
            of = f"ingress {name}" if by["of"] == "ingress" else f"service {case.name}"
            change = f"kubectl -n {case.namespace} annotate {of} {by['key']}=true --overwrite"
            yield found("ingress-to-endpoints", name=name, kind=kind, change=change)


def _lasting(port: Object) -> str:
    name = str(port.get("name") or "")
    by_name = "gRPC" if name == "grpc" or name.startswith("grpc-") else ""
    return str(texts("proxy_bypass")["ports"].get(port.get("appProtocol"), by_name))


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}

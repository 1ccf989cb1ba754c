"""ServiceCIDRs: the ranges of cluster IPs. kube-proxy has watched ServiceCIDRs since 1.33."""

from reference.apiserver.kinds import addresses, columns, errors, metadata
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import ANY, CONDITION, OTHERS, STRING, of_object
from reference.apiserver.kinds.strategy import ALL_BUT_STATUS, Resource, Strategy
from reference.client import Object
from reference.features import Features


class ServiceCIDRs(Strategy):
    """The strategy of ServiceCIDRs. They do not affect the ranges that this server uses."""

    resource = Resource(
        "networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", "servicecidr", namespaced=False, has_status=True
    )
    shape = of_object(spec={"cidrs": [STRING]}, status={"conditions": [CONDITION], OTHERS: ANY})
    kept_by_status = ALL_BUT_STATUS
    table = (
        columns.NAME,
        columns.text("CIDRs", "The ranges.", lambda obj: ",".join(obj.get("spec", {}).get("cidrs") or [])),
        columns.AGE,
    )

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        cidrs = (obj.get("spec") or {}).get("cidrs") or []
        found = super().validate(obj, features)
        if not cidrs:
            found.append(errors.required("spec.cidrs", "at least one CIDR required"))
        for index, cidr in enumerate(cidrs):
            found += addresses.validate_cidr(cidr, f"spec.cidrs[{index}]")
        families = [addresses.family_of(cidr.partition("/")[0]) for cidr in cidrs]
        if len(families) > 2 or len(set(families)) < len(families):
            found.append(errors.invalid("spec.cidrs", cidrs, "may specify no more than one IP for each IP family"))
        return found

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = metadata.validate_update(new, old) + self.validate(new, features)
        now, was = (new.get("spec") or {}).get("cidrs") or [], (old.get("spec") or {}).get("cidrs") or []
        if now[: len(was)] != was:  # a second family may be added
            found.append(errors.invalid("spec.cidrs", now, "field is immutable"))
        return found

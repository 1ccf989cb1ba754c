"""Leases, for leader election and for proxies that acknowledge changes."""

from reference.apiserver.kinds import columns, errors
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import ANY, INTEGER, OTHERS, STRING, TIME, fields, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features


class Leases(Strategy):
    resource = Resource("coordination.k8s.io", "v1", "Lease", "leases", "lease")
    shape = of_object(
        spec={
            "holderIdentity": STRING,
            **fields(INTEGER, "leaseDurationSeconds", "leaseTransitions"),
            **fields(TIME, "acquireTime", "renewTime"),
            OTHERS: ANY,
        }
    )
    table = (
        columns.NAME,
        columns.text("Holder", "Holder of the lease.", lambda obj: obj.get("spec", {}).get("holderIdentity", "")),
        columns.AGE,
    )

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        spec, found = obj.get("spec") or {}, super().validate(obj, features)
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            found.append(errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            found.append(errors.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
        return found

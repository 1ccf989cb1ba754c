"""Validates the overlapping fields `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` of a Service."""

from collections.abc import Iterator, Sequence

from reference.apiserver.kinds import addresses, errors
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.service_fields import (
    FAMILIES,
    HEADLESS,
    POLICIES,
    Spec,
    family_policy,
    is_headless,
    needs_cluster_ip,
)


def validate_families(spec: Spec, cluster: Sequence[str]) -> list[FieldError]:
    """Validate a spec whose `ipFamilies` are already set. `cluster` contains the IP families of the Service CIDRs."""
    if not needs_cluster_ip(spec):
        return []
    bad_addresses = list(_validate_addresses(spec))
    found = [*_validate_one_and_many(spec), *_validate_values(spec), *bad_addresses]
    if not bad_addresses:
        found += _validate_pairing(spec)
    if not found:
        found += _validate_policy(spec)
    if not found and not (is_headless(spec) and not spec.get("selector")):
        found += _validate_cluster(spec, cluster)
    return found


def _validate_one_and_many(spec: Spec) -> list[FieldError]:
    one, many, path = spec.get("clusterIP") or "", spec.get("clusterIPs") or [], "spec.clusterIPs"
    if one and not many:
        return [errors.required(path)]
    if one and many[0] != one:
        return [errors.invalid(path, many, "first value must match `clusterIP`")]
    if many and not one:
        return [errors.invalid(path, many, "must be empty when `clusterIP` is not specified")]
    return []


def _validate_values(spec: Spec) -> Iterator[FieldError]:
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    seen: set[str] = set()
    for index, family in enumerate(families):
        path = f"spec.ipFamilies[{index}]"
        if family not in FAMILIES:
            yield errors.not_supported(path, family, FAMILIES)
        yield from errors.unique(path, family, seen)
    if policy is not None and policy not in POLICIES:
        yield errors.not_supported("spec.ipFamilyPolicy", policy, POLICIES)


def _validate_addresses(spec: Spec) -> Iterator[FieldError]:
    many, path = spec.get("clusterIPs") or [], "spec.clusterIPs"
    if len(many) > 1 and many[0] == HEADLESS:
        yield errors.invalid(path, many, "'None' must be the first and only value")
    for index, address in enumerate(many):
        if index or address != HEADLESS:
            yield from addresses.validate_ip(address, f"{path}[{index}]")
    if len(many) > 2:
        yield errors.invalid(path, many, "may only hold up to 2 values")


def _validate_pairing(spec: Spec) -> Iterator[FieldError]:
    many, path = spec.get("clusterIPs") or [], "spec.clusterIPs"
    if is_headless(spec):
        return
    have = [addresses.family_of(each) for each in many]
    if len(have) > len(set(have)):
        yield errors.invalid(path, many, "may specify no more than one IP for each IP family")
    for index, (family, wanted) in enumerate(zip(have, spec.get("ipFamilies") or [], strict=False)):
        if wanted in FAMILIES and family != wanted:
            said = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            yield errors.invalid(f"{path}[{index}]", many[index], said)


def _validate_policy(spec: Spec) -> list[FieldError]:
    if family_policy(spec) != "SingleStack":
        return []
    counted = (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
    return [
        errors.invalid(
            "spec.ipFamilyPolicy",
            spec.get("ipFamilyPolicy"),
            f"must be RequireDualStack or PreferDualStack when multiple {words} are specified",
        )
        for name, words in counted
        if len(spec.get(name) or []) > 1
    ]


def _validate_cluster(spec: Spec, cluster: Sequence[str]) -> Iterator[FieldError]:
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and len(cluster) < 2:
        said = "this cluster is not configured for dual-stack services"
        yield errors.invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], said)
    for index, family in enumerate(spec.get("ipFamilies") or []):
        if family not in cluster:
            yield errors.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    for index, address in enumerate(spec.get("clusterIPs") or []):
        family_here = addresses.family_of(address)
        if family_here is not None and family_here not in cluster:
            said = f"{family_here} is not configured on this cluster"
            yield errors.invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], said)

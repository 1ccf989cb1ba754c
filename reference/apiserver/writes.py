"""Creates and updates objects: decode, identify, default, prepare, validate, allocate and store, as in Kubernetes."""

import secrets
import uuid
from typing import Any

import orjson

from reference.apiserver import deletion, managed_fields, status
from reference.apiserver.kinds import FieldError, Strategy
from reference.apiserver.kinds.shapes import same
from reference.apiserver.pools import ExhaustedError, NotAvailableError, Reservation
from reference.apiserver.registry import NAMESPACES, ObjectRef, Registry, Write
from reference.apiserver.store import StoredObject
from reference.client import Object, key_of
from reference.objects.timestamps import timestamp

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no characters that look alike (apimachinery's rand)
_MAX_PREFIX = 58  # a generated name is at most 63 characters
_ATTEMPTS = 8
MAX_OBJECT_BYTES = 1536 * 1024
"""The maximum size of an object as JSON (etcd: as protobuf). It also bounds lists, few of which Kubernetes limits."""

_SET_BY_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def private(obj: Object) -> Object:
    """Return a deep copy."""
    copy: Object = orjson.loads(orjson.dumps(obj))
    return copy


def create(registry: Registry, target: ObjectRef, obj: Object, call: Write) -> StoredObject:
    """Store `obj` (not a copy) as a new object. Raises `ApiError`: 400, 403, 404, 405, 409, 413, 422, 500."""
    strategy = registry.strategy(target.resource).rules(target.view)
    meta = _accept(strategy, obj, target)
    decode(registry, strategy, obj, call)
    with registry.store.lock:
        registry.require_namespace(target.namespace, strategy, meta.get("name") or "")
        _choose_name(registry, target, meta)
        _identify(strategy, registry, meta, call)
        strategy.default(obj)
        strategy.prepare_for_create(obj, registry.features)
        _refuse(strategy, obj, strategy.validate(obj, registry.features))
        call.warnings += strategy.warnings(obj, registry.features)
        if registry.store.get(target.resource, key_of(obj)) is not None:
            raise status.already_exists(strategy.resource, meta["name"])
        ledger = _allocate(registry, strategy, obj, None)
        if call.dry_run:
            ledger.undo()
            return StoredObject(obj, 0)
        ledger.commit()
        return registry.store.put(target.resource, obj)


def update(registry: Registry, target: ObjectRef, obj: Object, call: Write) -> StoredObject:
    """Replace an object, or for the subresource `status` only the status and the metadata that the kind allows.

    The caller must not change `obj` later. Raises `ApiError`: 400, 404, 409, 413, 422, 500.
    """
    strategy, features = registry.strategy(target.resource).rules(target.view), registry.features
    of_status = target.subresource == "status" and strategy.resource.has_status
    if target.subresource and not of_status:
        raise status.no_such_path()
    _accept(strategy, obj, target)
    decode(registry, strategy, obj, call)
    with registry.store.lock:
        old = _present(registry, strategy, obj)
        _keep_identity(obj["metadata"], old.object["metadata"])
        strategy.default(obj)
        if of_status:
            strategy.prepare_for_status_update(obj, old.object)
        else:
            strategy.prepare_for_update(obj, old.object, features)
        if not call.applied:
            managed_fields.track(obj, old.object, call.manager, strategy.list_rules(), subresource=target.subresource)
        if of_status:
            _refuse(strategy, obj, strategy.validate_status_update(obj, old.object, features))
            return _replace(registry, strategy, obj, old, call)
        _refuse(strategy, obj, strategy.validate_update(obj, old.object, features))
        call.warnings += strategy.warnings(obj, features)
        if features.at_least(strategy.generation_since) and strategy.spec_changed(obj, old.object):
            obj["metadata"]["generation"] = (old.object["metadata"].get("generation") or 0) + 1
        return _replace(registry, strategy, obj, old, call)


def _accept(strategy: Strategy, obj: Any, target: ObjectRef) -> dict[str, Any]:
    """Check that the object's kind, name and namespace match the request, and return the object's metadata."""
    resource, namespace, name = strategy.resource, target.namespace, target.name
    if not isinstance(obj, dict) or not isinstance(obj.setdefault("metadata", {}), dict):
        raise status.bad_request(f"the object provided is not a {resource.kind}")
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if (obj.get(field) or expected) != expected:
            raise status.bad_request(
                f"expected {resource.kind} in version {resource.version!r}, but the object has {field} {obj[field]!r}"
            )
        obj[field] = expected
    meta: dict[str, Any] = obj["metadata"]
    if name and (meta.setdefault("name", name) or name) != name:
        raise status.bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if resource.namespaced:
        if namespace and (meta.get("namespace") or namespace) != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = namespace or meta.get("namespace") or ""
    return meta


def decode(registry: Registry, strategy: Strategy, obj: Object, call: Write) -> None:
    """Remove fields that the kind does not have, and add warnings about them to `call`. Raises `ApiError` (400)."""
    try:
        unknown = [f'unknown field "{each}"' for each in strategy.decode(obj, registry.features)]
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    if not unknown:
        return
    if call.validation == "Strict":
        resource = strategy.resource
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(unknown)}"
        )
    if call.validation == "Warn":
        call.warnings += unknown


def _choose_name(registry: Registry, target: ObjectRef, meta: dict[str, Any]) -> None:
    prefix = meta.get("generateName")
    if meta.get("name") or not isinstance(prefix, str) or not prefix:
        return
    for _ in range(_ATTEMPTS):
        meta["name"] = prefix[:_MAX_PREFIX] + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
        if registry.store.get(target.resource, (target.namespace, meta["name"])) is None:
            return


def _identify(strategy: Strategy, registry: Registry, meta: dict[str, Any], call: Write) -> None:
    if meta.pop("resourceVersion", None):
        raise status.bad_request("resourceVersion should not be set on objects to be created")
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"):
        meta.pop(field, None)
    if not call.applied:
        meta.pop("managedFields", None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = timestamp()
    if registry.features.at_least(strategy.generation_since):
        meta["generation"] = 1


def _present(registry: Registry, strategy: Strategy, obj: Object) -> StoredObject:
    """Return the stored object that `obj` replaces, after checking that `obj` is based on its current version."""
    meta = obj["metadata"]
    if not meta.get("name"):
        raise status.bad_request("name must be provided")
    old = registry.get(strategy.resource.key, *key_of(obj))
    current = old.object["metadata"]
    if (meta.get("uid") or current["uid"]) != current["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {current['uid']}"
        raise status.conflict(strategy.resource, meta["name"], why)
    asked = meta.get("resourceVersion") or ""
    if asked not in {"", "0", current["resourceVersion"]}:
        raise status.conflict(strategy.resource, meta["name"])
    return old


def _keep_identity(meta: dict[str, Any], old: dict[str, Any]) -> None:
    for field in _SET_BY_SERVER:
        if field in old:
            meta[field] = old[field]
        else:
            meta.pop(field, None)
    meta["resourceVersion"] = old["resourceVersion"]
    if old.get("generateName"):
        meta["generateName"] = old["generateName"]
    meta.pop("selfLink", None)


def _refuse(strategy: Strategy, obj: Object, errors: list[FieldError]) -> None:
    if errors:
        raise status.invalid(strategy.resource, obj["metadata"].get("name") or "", errors)
    if len(orjson.dumps(obj)) > MAX_OBJECT_BYTES:
        raise status.too_large("etcdserver: request is too large")


def _replace(registry: Registry, strategy: Strategy, new: Object, old: StoredObject, call: Write) -> StoredObject:
    if new == old.object and not old.hides:  # any write drops hidden fields, which this release does not have
        return old
    ledger = _allocate(registry, strategy, new, old.object)
    if call.dry_run:
        ledger.undo()
        return StoredObject(new, old.revision)
    if _has_ended(registry, strategy, new["metadata"]):
        ledger.undo()
        return deletion.remove(registry, strategy, new)
    _share(new, old.object)
    ledger.commit()
    return registry.store.put(strategy.resource.key, new)


def _share(new: Object, old: Object) -> None:
    """Let `new` share unchanged fields with `old`, because copies would slow down the garbage collector."""
    for name, value in old.items():
        if name != "metadata" and name in new and same(new[name], value):
            new[name] = value


def _has_ended(registry: Registry, strategy: Strategy, meta: dict[str, Any]) -> bool:
    """Return whether an object that is being deleted can be removed now."""
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return strategy.resource.key != NAMESPACES or registry.is_empty(meta["name"])


def _allocate(registry: Registry, strategy: Strategy, new: Object, old: Object | None) -> Reservation:
    try:
        return registry.pools.assign(strategy, new, old)
    except NotAvailableError as refused:
        raise status.invalid(strategy.resource, new["metadata"]["name"], [refused.error]) from None
    except ExhaustedError:
        raise status.internal("failed to allocate a service address or node port: range is full") from None

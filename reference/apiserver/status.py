"""The Status objects of responses, with the same `reason`, `code` and `message` as in kube-apiserver."""

from collections.abc import Sequence

from reference.apiserver.kinds import FieldError, Resource
from reference.client import ApiError, Object

_SHOWN = 1000  # the maximum number of errors to return for one object


def failure(code: int, reason: str, message: str, details: Object | None = None) -> ApiError:
    """Return an exception with a Status object. `details` identifies the object and lists the causes."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details:
        status["details"] = details
    status["code"] = code
    return ApiError(status)


def success(resource: Resource, name: str, uid: str) -> Object:
    """Return the Status for a delete request that removed an object immediately."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_details(resource, name), "uid": uid},
    }


def qualified(resource: Resource) -> str:
    """Return the name of a resource in messages: `services`, `endpointslices.discovery.k8s.io`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def not_found(resource: Resource, name: str) -> ApiError:
    return failure(404, "NotFound", f'{qualified(resource)} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    return failure(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    return failure(409, "AlreadyExists", f'{qualified(resource)} "{name}" already exists', _details(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> ApiError:
    """Return the 409 error for an object that has changed since the client read it, or for an unmet precondition."""
    why = why or ("the object has been modified; please apply your changes to the latest version and try again")
    message = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {why}'
    return failure(409, "Conflict", message, _details(resource, name))


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> ApiError:
    """Return the 409 error for an apply that conflicts with other managers. `conflicts` are (manager, field) pairs."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": path}
        for manager, path in conflicts
    ]
    shown = "\n".join(f"- {path}" for _, path in conflicts)
    managers = ", ".join(sorted({f'"{manager}"' for manager, _ in conflicts}))
    if len(conflicts) == 1:
        message = f'Apply failed with 1 conflict: conflict with "{conflicts[0][0]}": {conflicts[0][1]}'
    else:
        message = f"Apply failed with {len(conflicts)} conflicts: conflicts with {managers}:\n{shown}"
    return failure(409, "Conflict", message, {"causes": causes})


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Return the 422 error with one cause for each invalid field."""
    errors = errors[:_SHOWN]
    messages = [str(each) for each in errors]
    shown = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = _details(resource, name) | {"kind": resource.kind, "causes": [each.as_cause() for each in errors]}
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return failure(422, "Invalid", f'{kind} "{name}" is invalid: {shown}', details)


def bad_request(message: str) -> ApiError:
    return failure(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str, cause: str) -> ApiError:
    details = _details(resource, name) | {"causes": [{"reason": cause, "message": why, "field": "metadata.namespace"}]}
    return failure(403, "Forbidden", f'{qualified(resource)} "{name}" is forbidden: {why}', details)


def unauthorized() -> ApiError:
    return failure(401, "Unauthorized", "Unauthorized")


def method_not_allowed(method: str) -> ApiError:
    return failure(
        405, "MethodNotAllowed", f"the server does not allow this method on the requested resource: {method}"
    )


def unsupported_media(content_type: str, known: Sequence[str]) -> ApiError:
    message = (
        f"the body of the request was in an unknown format ({content_type or 'no content type'}) - "
        f"accepted media types include: {', '.join(known)}"
    )
    return failure(415, "UnsupportedMediaType", message)


def expired(message: str) -> ApiError:
    """Return the 410 error for a resourceVersion or continue token that is older than all remembered changes."""
    return failure(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """Return the 504 error for a resourceVersion that is newer than the server's. The client should retry."""
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return failure(504, "Timeout", message, details | {"retryAfterSeconds": 1})


def unavailable() -> ApiError:
    """Return the 503 error of a server that was stopped, or whose objects another server has taken over."""
    details = {"retryAfterSeconds": 1}
    return failure(503, "ServiceUnavailable", "the server is currently unable to handle the request", details)


def too_many_watches(most: int) -> ApiError:
    return failure(
        429, "TooManyRequests", f"more than {most} watches, please try again later", {"retryAfterSeconds": 1}
    )


def too_large(message: str) -> ApiError:
    return failure(413, "RequestEntityTooLarge", message)


def full(limit: int, agent: str, written: int) -> ApiError:
    """Return the 507 error of a full store. Kubernetes instead answers writes with 500, and still answers reads."""
    most = f"most was written by the user agent {agent!r}: {written >> 20} MB"
    return failure(507, "InsufficientStorage", f"the API server has stored more than {limit >> 20} MB; {most}")


def internal(message: str) -> ApiError:
    return failure(500, "InternalError", f"Internal error occurred: {message}")


def _details(resource: Resource, name: str) -> Object:
    details: Object = {"name": name}
    if resource.group:
        details["group"] = resource.group
    return {**details, "kind": resource.plural}

"""Translates an error from an API server, a connection, a pod or a node into one line that says how to fix it."""

import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import urllib3.exceptions as http

from harness.api.client import Object, RefusedError, Response

MANIFEST = "deploy/rbac.yaml"

_GRANT = f"let a cluster administrator apply {MANIFEST}, or use another context (--context)"
_LOG_IN = "log in again, or name a kubeconfig with valid credentials (--kubeconfig, --context)"
_NAMESPACES = "namespaces with label trafficdist.dev/run"
_IS_UP = "is the cluster up, and is this the right context (--context)?"


def of(error: BaseException, *, server: str = "") -> str:
    """Return a harness error as one line. `server` is the API server's URL, if it is known."""
    if isinstance(error, RefusedError):
        return of_answer(error.response, doing=f"{error.method} {error.path}")
    if isinstance(error.__cause__, http.HTTPError):
        return of_connection(error.__cause__, server=server)
    return _line(str(error))


def is_of_connection(error: BaseException) -> bool:
    return isinstance(error.__cause__, http.HTTPError)


def is_of_credentials(error: BaseException) -> bool:
    if isinstance(error, RefusedError):
        return error.response.code == 401 or _is_anonymous(error.response)
    return isinstance(error.__cause__, http.HTTPError) and _is_refused_certificate(_innermost(error.__cause__))


def _is_anonymous(answer: Response) -> bool:
    return answer.code == 403 and "system:anonymous" in str(answer.body.get("message"))


def _is_refused_certificate(reason: BaseException) -> bool:
    text = str(reason).upper()
    return isinstance(reason, ssl.SSLError) and "ALERT" in text and ("CERTIFICATE" in text or "EXPIRED" in text)


def of_answer(answer: Response, *, doing: str = "") -> str:  # noqa: PLR0911  a line for each kind of error
    """Return why the API server refused a request. `doing` describes the request, for example "create pods"."""
    text = _line(str(answer.body.get("message") or "no reason given"))
    trying = f" to {doing}" if doing else ""
    if answer.code == 401:
        return f"the API server does not accept the credentials (401 {text}): {_LOG_IN}"
    if _is_anonymous(answer):
        return f"the kubeconfig has no valid credentials (403 {text}): {_LOG_IN}"
    if answer.code == 403:
        return _forbidden(text, trying)
    if answer.code == 429:
        return f"the API server is overloaded, or limits this user (429 {text}): use fewer --workers, or try later"
    if answer.code >= 500:
        return _server_error(answer.code, text, trying)
    if "admission webhook" in text:
        return f"an admission webhook of the cluster refuses{trying}: {text}; exempt {_NAMESPACES} from it"
    return f"the API server refuses{trying}: {answer.code} {text}"


def _forbidden(text: str, trying: str) -> str:
    if found := re.search(r"exceeded quota: ([^,]+), requested: (.*)", text):
        return (
            f"resource quota {found[1]} is used up (requested {found[2]}): increase the quota, or delete other objects"
        )
    return _not_admitted(text, trying) or f"no permission{trying} (403 {text}): {_GRANT}"


def _not_admitted(text: str, trying: str) -> str:
    """Return why admission refused a request (with 403, like RBAC), or "" if the text names no admission error."""
    if "must specify limits" in text or "must specify requests" in text or "failed quota" in text:
        return (
            f"a resource quota requires fields that the suite's pods do not set: {text}; exempt {_NAMESPACES} from it"
        )
    if "violates PodSecurity" in text:
        enforce = "pod-security.kubernetes.io/enforce"
        return f"pod security admission refuses a pod: {text}; let {_NAMESPACES} set {enforce} themselves"
    if "admission webhook" in text or "ValidatingAdmissionPolicy" in text:
        return f"an admission policy of the cluster refuses{trying}: {text}; exempt {_NAMESPACES} from it"
    if "being terminated" in text:
        return f"the namespace is terminating while in use ({text}): is another user cleaning up? Start the run again"
    return ""


def _server_error(code: int, text: str, trying: str) -> str:
    if "failed calling webhook" in text:
        return f"an admission webhook of the cluster does not answer ({text}): repair or remove it"
    if code in {502, 503, 504}:
        return f"the API server, or a proxy in front of it, is not available ({code} {text}): {_IS_UP}"
    return f"the API server failed{trying}: {code} {text}; see its log"


def of_connection(error: http.HTTPError, *, server: str = "") -> str:
    reason = _innermost(error)
    where = server or _address(error) or "the API server"
    return f"{where}: {_why_no_answer(reason)}"


def _why_no_answer(reason: BaseException) -> str:  # noqa: PLR0911  a line for each kind of error
    text = _line(str(reason))
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _untrusted(reason)
    if isinstance(reason, ssl.SSLError):
        if "X509" in text or "PEM" in text:
            return f"the certificate-authority or client certificate of the kubeconfig is invalid ({text}): renew it"
        if _is_refused_certificate(reason):
            return f"it does not accept the client certificate ({text}): {_LOG_IN}"
        return f"its TLS handshake failed ({text}): is this the address of an API server? See `server:`"
    if isinstance(reason, http.NameResolutionError) or "Name or service not known" in text:
        return f"its name cannot be resolved: {_IS_UP}"
    if isinstance(reason, http.ConnectTimeoutError | http.ReadTimeoutError | TimeoutError):
        return f"no response, packets may be dropped (VPN, firewall): {_IS_UP}"
    if isinstance(reason, http.ProxyError):
        return f"the HTTP proxy blocks the connection ({text}): see HTTPS_PROXY and NO_PROXY"
    if isinstance(reason, ConnectionRefusedError) or "refused" in text:
        return f"no server listens there (connection refused): {_IS_UP}"
    if "No route to host" in text or "unreachable" in text:
        return f"there is no route to it ({text}): {_IS_UP}"
    return f"the connection ended ({text}): {_IS_UP}"


def _untrusted(reason: ssl.SSLCertVerificationError) -> str:
    text = reason.verify_message or _line(str(reason))
    if "expired" in text or "not yet valid" in text:
        return f"its certificate is not valid now ({text}): renew it, or set this machine's clock"
    if "match" in text.lower():
        return f"its certificate is for another name ({text}): set tls-server-name, or use a name in the certificate"
    return (
        f"an authority that is not in the kubeconfig signed its certificate ({text}): another cluster may have "
        "this address now; get a new kubeconfig, or correct certificate-authority"
    )


_REGISTRY = "use a registry that the nodes can reach (option image-registry)"


def of_pod(pod: Object, *, pull: str = _REGISTRY) -> str:
    """Return the known reason why a pod is not ready, or "". `pull` is the fix for a missing image."""
    status = pod.get("status") or {}
    name = f"pod {pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"
    node = (pod.get("spec") or {}).get("nodeName")
    place = f"{name} on node {node}" if node else name
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if why := _waiting(str(waiting.get("reason", "")), str(waiting.get("message", "")), container, pull):
            return f"{place}: {why}"
    if status.get("phase") == "Failed":
        text = _line(f"{status.get('reason', '')} {status.get('message', '')}")
        return f"{place} ended ({text or 'no reason given'}): see `kubectl describe`, and its kubelet's log"
    return _unscheduled(name, status.get("conditions") or ())


def of_kubelet(pod: Object) -> str:
    """Return an error text if the kubelet has not started the pod, else "". A start usually takes under a second."""
    status, node = pod.get("status") or {}, (pod.get("spec") or {}).get("nodeName")
    if not node or status.get("startTime") or status.get("containerStatuses") or status.get("podIP"):
        return ""
    name = f"pod {pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"
    return (
        f"{name}: the kubelet of node {node} does not start it: check whether that node is up, and start the run again"
    )


def _waiting(reason: str, text: str, container: Mapping[str, Any], pull: str) -> str:
    image = container.get("image", "?")
    text = _line(text)
    by_reason = {
        "ErrImagePull": f"image {image} cannot be pulled ({text}): {pull}",
        "ImagePullBackOff": f"image {image} cannot be pulled ({text}): {pull}",
        "InvalidImageName": f"image {image} is not a valid image name ({text}): see option image-registry",
        "ErrImageNeverPull": f"image {image} is not on the node, and its pull policy is Never: load it there",
        "CrashLoopBackOff": f"its container crashes repeatedly ({text}): see `kubectl logs --previous`",
        "CreateContainerConfigError": f"its container cannot be created ({text})",
        "CreateContainerError": f"its container cannot be created ({text})",
        "RunContainerError": f"its container does not start ({text}): see its kubelet's log",
    }
    return by_reason.get(reason, "")


def _unscheduled(name: str, conditions: Sequence[Mapping[str, Any]]) -> str:
    for each in conditions:
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            text = _line(str(each.get("message", "")))
            return f"{name} cannot be scheduled ({text}): free resources, or remove the node's taint"
    return ""


def of_node(name: str, node: Object | None) -> str:
    if node is None:
        return f"node {name} was removed from the cluster: start the run again when the cluster's nodes do not change"
    conditions = {each.get("type"): each for each in (node.get("status") or {}).get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    if ready.get("status") != "True":
        text = _line(str(ready.get("message") or "it has no condition Ready"))
        return f"node {name} is not ready ({text}): repair it, or exclude it (--topology), and start the run again"
    if node["metadata"].get("deletionTimestamp"):
        return (
            f"node {name} is being removed from the cluster: start the run again when the cluster's nodes do not change"
        )
    return ""


def _innermost(error: BaseException) -> BaseException:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, http.NameResolutionError | http.ProxyError):
            break
        for argument in (getattr(error, "reason", None), getattr(error, "original_error", None), *error.args):
            if isinstance(argument, BaseException):
                error = argument
                break
        else:
            if isinstance(error.__cause__, OSError):
                error = error.__cause__
    return error


def _address(error: BaseException) -> str:
    for each in (error, getattr(error, "reason", None)):
        connection = getattr(each, "conn", None)
        host, port = getattr(connection, "host", None), getattr(connection, "port", None)
        if host:
            return f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return ""


def _line(text: str) -> str:
    return " ".join(text.split())

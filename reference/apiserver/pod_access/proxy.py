"""The `proxy` subresource of pods. Each request uses a new connection: an open one would still reach a deleted pod."""

from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from reference.apiserver import status
from reference.apiserver.pod_access import pod_location
from reference.apiserver.pod_access.pod_location import NO_WAY, Forwarder, Location, PodRequest, reason_of, unreached
from reference.client import ApiError

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_OF_ONE_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
        "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_NOT_FOR_PODS = frozenset({"authorization", "expect"})
_ADDED_UNASKED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_UNESCAPED = "/~!$&'()*+,;=:@"


class PodProxy(Forwarder):
    async def forward(self, request: web.BaseRequest, asked: PodRequest) -> web.StreamResponse:
        """Return the response of the server in the pod. Raises `ApiError`: 400, 404, 405, 503."""
        if request.method not in METHODS:
            raise status.method_not_allowed(request.method)
        location = pod_location.locate(self._registry, asked)
        if not asked.path and request.method in {"GET", "HEAD"}:
            return _with_slash(request)
        if self.open_socket is None:
            raise unreached(NO_WAY)
        async with await self._ask(request, location, asked.path) as answer:
            return await _send_back(request, answer)

    async def _ask(self, request: web.BaseRequest, location: Location, path: str) -> aiohttp.ClientResponse:
        url = URL(f"{location.scheme}://{location.host}{quote(path or '/', safe=_UNESCAPED)}", encoded=True)
        if request.query_string:
            url = URL(f"{url}?{request.rel_url.raw_query_string}", encoded=True)
        body = request.content if request.body_exists else None
        session = self._connected(
            tls=False,  # as in Kubernetes, the certificates of pods are not verified
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_ADDED_UNASKED,
            auto_decompress=False,
        )
        session._retry_connection = False  # aiohttp's second attempt would count a probe twice
        try:
            return await session.request(
                request.method, url, headers=_headers(request), data=body, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _refusal(error, location) from None


async def _send_back(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status, reason=answer.reason, headers=_end_to_end(answer.headers, frozenset())
    )
    await response.prepare(request)
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
    except aiohttp.ClientError as error:  # the status code is already sent, so only an abort shows that data is missing
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the server in the pod closed the connection too early") from error
    await response.write_eof()
    return response


def _with_slash(request: web.BaseRequest) -> web.StreamResponse:
    """Redirect to the path with a trailing slash, like Kubernetes. Relative links of a root page need the slash."""
    query = f"?{request.rel_url.raw_query_string}" if request.query_string else ""
    return web.Response(status=301, headers={"Location": f"{request.rel_url.raw_path}/{query}"})


def _headers(request: web.BaseRequest) -> CIMultiDict[str]:
    headers = _end_to_end(request.headers, _NOT_FOR_PODS)
    if request.remote:
        headers.add("X-Forwarded-For", request.remote)
    headers["X-Forwarded-Host"] = request.headers.get("Host", "")
    headers["X-Forwarded-Proto"] = "https"
    headers["X-Forwarded-Uri"] = request.rel_url.raw_path
    return headers


def _end_to_end(headers: CIMultiDictProxy[str], left_out: frozenset[str]) -> CIMultiDict[str]:
    named = {each.strip().lower() for value in headers.getall("Connection", []) for each in value.split(",")}
    left_out = _OF_ONE_HOP | left_out | named
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in left_out)


def _refusal(error: Exception, location: Location) -> ApiError:
    """Return the error for a pod that did not respond, with the same message as Go's HTTP client."""
    if isinstance(error, aiohttp.ConnectionTimeoutError | TimeoutError):
        return unreached(f"dial tcp {location.host}: i/o timeout")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return unreached("EOF")
    if isinstance(error, aiohttp.ClientResponseError):
        return unreached("malformed HTTP response")
    said = reason_of(error) or str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError):
        return unreached(f"dial tcp {location.host}: connect: {said}")
    return unreached(said)

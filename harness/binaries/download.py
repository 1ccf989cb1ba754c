"""Downloads a file over HTTP from the first mirror that has it, and checks its SHA-256 checksum."""

import contextlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.binaries.cache import explained_errors
from harness.binaries.progress import Reporter
from harness.errors import UnavailableError, UsageError
from harness.model.files import sha256_of

_CHUNK = 1 << 17  # bytes
_SMALL = 1 << 20  # bytes, enough for a checksum, a version, or a list of releases
_BROKEN = (urllib.error.URLError, http.client.HTTPException, OSError)


class ConnectionLostError(UnavailableError):
    """The server cannot be reached or responds with an error, or the connection was interrupted."""


class FileMissingError(UnavailableError):
    """The server does not have the file."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Downloads files. An attempt fails after `timeout` seconds without data."""

    timeout: float = 30.0
    attempts: int = 4
    pause: Callable[[float], None] = time.sleep

    def text(self, urls: Sequence[str]) -> str:
        """Download a small text from the first mirror that has it. Raises `FileMissingError`, `UnavailableError`."""
        return self._first(urls, self._text)

    def file(self, urls: Sequence[str], target: Path, sha256: str, watcher: Reporter) -> str:
        """Download a file with this checksum, and return its URL. Raises `FileMissingError`, `UnavailableError`."""
        return self._first(urls, lambda url: self._file(url, target, sha256, watcher))

    def _first(self, urls: Sequence[str], get: Callable[[str], str]) -> str:
        problems: list[UnavailableError] = []
        for url in urls:
            try:
                return get(url)
            except UnavailableError as error:
                problems.append(error)
        if all(isinstance(each, FileMissingError) for each in problems):
            raise FileMissingError("\n".join(map(str, problems)))
        text = "\n".join(map(str, problems))
        raise UnavailableError(f"{text}\ncheck the network, choose a --mirror, or compile with --from source")

    def _text(self, url: str) -> str:
        with _explained_errors(url), self._open(url) as answer:
            return answer.read(_SMALL).decode("utf-8", errors="replace")

    def _file(self, url: str, target: Path, sha256: str, watcher: Reporter) -> str:
        target.unlink(missing_ok=True)
        for left in reversed(range(self.attempts)):
            try:
                with _explained_errors(url), self._open(url) as answer:
                    _write(answer, url, target, watcher)
                break
            except ConnectionLostError as error:
                if not left or not target.exists() or not target.stat().st_size:
                    raise
                watcher.say(f"interrupted after {target.stat().st_size / 1e6:.1f} MB ({error}); trying again")
                self.pause(1.0)
        found = sha256_of(target)
        if found == sha256:
            return url
        target.unlink()
        raise UnavailableError(f"{url} differs from the publisher's file: its SHA-256 sum is {found}, not {sha256}")

    @contextlib.contextmanager
    def _open(self, url: str) -> Iterator[http.client.HTTPResponse]:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"mirror {url!r}: expected a URL that begins with http:// or https://")
        request = urllib.request.Request(url, headers={"User-Agent": "trafficdist"})  # noqa: S310  the scheme is checked
        try:
            answer = urllib.request.urlopen(request, timeout=self.timeout)  # noqa: S310  the same
        except urllib.error.HTTPError as error:
            error.close()
            raise
        with answer:
            yield answer


@contextlib.contextmanager
def _explained_errors(url: str) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        if error.code in (403, 404, 410):  # a bucket without list permission answers 403 for a missing file
            raise FileMissingError(f"{url}: {error.code} {error.reason}") from None
        raise ConnectionLostError(f"{url}: {error.code} {error.reason}") from None
    except _BROKEN as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ConnectionLostError(f"{url}: {reason or type(error).__name__}") from None


def _write(answer: http.client.HTTPResponse, url: str, target: Path, watcher: Reporter) -> None:
    total, done = int(answer.headers.get("Content-Length") or 0), 0
    with explained_errors(target):
        file = target.open("wb")
    watcher.begin(url, total, unit="bytes")
    try:
        with file:
            while chunk := answer.read1(_CHUNK):
                with explained_errors(target):
                    file.write(chunk)
                done += len(chunk)
                watcher.advance(len(chunk))
    finally:
        watcher.end()
    if done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")

"""Download a file over HTTP from the first mirror that has it, and resume interrupted downloads.

The partial file remains on disk, and the next request is for the remaining bytes. A server without range support sends
the complete file. A file with a wrong SHA-256 checksum is deleted, and downloaded again if a part of it was from an
earlier attempt. pooch also verifies checksums, but does not resume downloads or try mirrors.
"""

import contextlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.binaries.cache import said_plainly
from harness.binaries.watching import Watcher
from harness.errors import UnavailableError, UsageError
from harness.model.files import sha256_of

_T = TypeVar("_T")
_CHUNK = 1 << 17  # bytes
_SMALL = 1 << 20  # bytes, enough for a checksum, a version, or a list of releases
_BROKEN = (urllib.error.URLError, http.client.HTTPException, OSError)


class ConnectionLostError(UnavailableError):
    """The server cannot be reached, or the connection was interrupted."""


class FileMissingError(UnavailableError):
    """The server does not have the file."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Downloads files. `timeout` is the number of seconds without data. `attempts` limits consecutive attempts without
    progress.
    """

    timeout: float = 30.0
    attempts: int = 4
    pause: Callable[[float], None] = time.sleep

    def text(self, urls: Sequence[str]) -> str:
        """Download a small text from the first mirror that has it. Raises `FileMissingError`, `UnavailableError`."""
        return self._first(urls, self._text)

    def file(self, urls: Sequence[str], target: Path, sha256: str, watcher: Watcher) -> str:
        """Download a file with this checksum, and return its URL. Raises `FileMissingError`, `UnavailableError`."""
        return self._first(urls, lambda url: self._file(url, target, sha256, watcher))

    def _first(self, urls: Sequence[str], get: Callable[[str], _T]) -> _T:
        problems: list[UnavailableError] = []
        for url in urls:
            try:
                return get(url)
            except UnavailableError as error:
                problems.append(error)
        if all(isinstance(each, FileMissingError) for each in problems):
            raise FileMissingError("\n".join(map(str, problems)))
        said = "\n".join(map(str, problems))
        raise UnavailableError(f"{said}\ncheck the network, choose a --mirror, or compile with --from source")

    def _text(self, url: str) -> str:
        with _plainly(url), self._open(url) as answer:
            return answer.read(_SMALL).decode("utf-8", errors="replace")

    def _file(self, url: str, target: Path, sha256: str, watcher: Watcher) -> str:
        """Download from one mirror. If the checksum of a resumed file is wrong, download it again from the start."""
        part = target.with_suffix(".part")
        joined = part.exists()
        while True:
            joined = self._complete(url, part, watcher) or joined
            found = sha256_of(part)
            if found == sha256:
                part.rename(target)
                return url
            part.unlink()
            if not joined:
                raise UnavailableError(
                    f"{url} differs from the publisher's file: its SHA-256 sum is {found}, not {sha256}"
                )
            watcher.say("the partial file does not match; downloading the complete file")
            joined = False

    def _complete(self, url: str, part: Path, watcher: Watcher) -> bool:
        """Download the remaining bytes of a file over several connections. Return whether the file was joined from
        parts.

        If a server sends no data, it is not tried again, because another mirror may respond.
        """
        idle, came = 0, False
        while True:
            before = _size_of(part)
            try:
                with _plainly(url):
                    self._continue(url, part, watcher)
                return came
            except ConnectionLostError as error:
                progress = _size_of(part) > before
                came, idle = came or progress, 0 if progress else idle + 1
                if not came or idle >= self.attempts:
                    raise
                watcher.say(f"interrupted after {_size_of(part) / 1e6:.1f} MB ({error}); resuming")
                self.pause(min(2.0**idle, 10.0))

    def _continue(self, url: str, part: Path, watcher: Watcher) -> None:
        """Download the remaining bytes over one connection."""
        have = _size_of(part)
        with self._open(url, have) as answer:
            if answer.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # nothing follows: the checksum decides
            if not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                have = 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length else 0
            watcher.begin(url, total, unit="bytes", done=have)
            try:
                done = have + _write(answer, part, append=have > 0, watcher=watcher)
            finally:
                watcher.end()
        if done < total:
            raise ConnectionError(f"the connection ended at {done} of {total} bytes")

    @contextlib.contextmanager
    def _open(self, url: str, start: int = 0) -> Iterator[http.client.HTTPResponse]:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"mirror {url!r}: expected a URL that begins with http:// or https://")
        headers = {"User-Agent": "trafficdist"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310  the scheme is checked above
            answer = urllib.request.urlopen(request, timeout=self.timeout)  # noqa: S310  the same
        except urllib.error.HTTPError as error:
            if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not start:
                error.close()
                raise
            answer = error
        with answer:
            yield answer


@contextlib.contextmanager
def _plainly(url: str) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        if error.code in (403, 404, 410):  # a bucket without list permission answers 403 for a missing file
            raise FileMissingError(f"{url}: {error.code} {error.reason}") from None
        raise ConnectionLostError(f"{url}: {error.code} {error.reason}") from None
    except _BROKEN as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ConnectionLostError(f"{url}: {reason or type(error).__name__}") from None


def _write(answer: http.client.HTTPResponse, part: Path, *, append: bool, watcher: Watcher) -> int:
    written = 0
    with said_plainly(part):
        file = part.open("ab" if append else "wb")
    with file:
        while chunk := answer.read1(_CHUNK):
            with said_plainly(part):
                file.write(chunk)
            written += len(chunk)
            watcher.advance(len(chunk))
    return written


def _size_of(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0

"""Reads the bytes of a plain or compressed history, and packs a history for publication. In a packed history
(`run.jsonl.xz`), only the last line has a digest. Digests cannot be compressed, and would take up two thirds of the
file. Each digest can be computed from the lines before it, so the reader restores the exact bytes of `run.jsonl`. The
last digest shows whether any line was changed.
"""

import hashlib
import lzma
from pathlib import Path

from harness.errors import UsageError
from harness.model import files

MOST_BYTES = 256 * files.MEGABYTE
"""The size limit of a history, before and after decompression. A run of all requirements writes nine megabytes."""

_MEMORY = 128 * files.MEGABYTE  # memory limit for unpacking; an archive by xz -9 needs 65 MiB

_BEFORE, _AFTER = b',"digest":"', b'"}'
_DIGEST = 64  # hexadecimal digits of SHA-256
TAIL = len(_BEFORE) + _DIGEST + len(_AFTER)


def read(path: Path) -> bytes:
    """Return the content of a `run.jsonl` or `run.jsonl.xz` file. Raises `UsageError` if it cannot be read."""
    content = files.content(path, what="history", most=MOST_BYTES)
    if path.suffix != ".xz":
        return content
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        content = decompressor.decompress(content, max_length=MOST_BYTES + 1)
        damaged = len(content) <= MOST_BYTES and (not decompressor.eof or decompressor.unused_data)
    except (EOFError, lzma.LZMAError):
        damaged = True
    if damaged:
        raise UsageError(f"history {path}: cannot be read: its compressed data are damaged or incomplete")
    if len(content) + TAIL * content.count(b"\n") > MOST_BYTES:
        raise UsageError(f"history {path}: has more than {MOST_BYTES // files.MEGABYTE} MiB")
    return _restored(content)


def packed(content: bytes) -> bytes:
    """Return a complete history in the packed form of `run.jsonl.xz`."""
    *lines, last, _ = content.split(b"\n")
    return lzma.compress(b"\n".join([*(line[:-TAIL] + b"}" for line in lines), last, b""]))


def sealed(body: bytes, before: bytes) -> tuple[bytes, bytes]:
    """Return a line without its newline, and its digest. `body` is a JSON object without its closing brace."""
    digest = hashlib.sha256(before + body).hexdigest().encode()
    return body + _BEFORE + digest + _AFTER, digest


def _restored(content: bytes) -> bytes:
    *lines, rest = content.split(b"\n")
    digest, restored = b"", []
    for line in lines:
        if line[-TAIL:].startswith(_BEFORE):
            digest = line[-TAIL:][len(_BEFORE) : -len(_AFTER)]
            restored.append(line)
        else:
            whole, digest = sealed(line[:-1], digest)
            restored.append(whole)
    return b"\n".join([*restored, rest])

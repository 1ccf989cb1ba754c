"""Binaries of real cluster components: fetched by version, cached, and found by the adapters.

find("kube-proxy", "1.34")    returns the path of a binary, or raises an error with the command that fetches it
"""

from harness.binaries.cache import Cache, Entry, find, find_entry
from harness.binaries.component import COMPONENTS
from harness.binaries.versions import Version

__all__ = ["COMPONENTS", "Cache", "Entry", "Version", "find", "find_entry"]

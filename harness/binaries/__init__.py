"""Binaries of real cluster components: fetched by version, cached, and found by the adapters."""

from harness.binaries.cache import Cache, CacheEntry, find, find_entry
from harness.binaries.component import COMPONENTS
from harness.binaries.versions import Version

__all__ = ["COMPONENTS", "Cache", "CacheEntry", "Version", "find", "find_entry"]

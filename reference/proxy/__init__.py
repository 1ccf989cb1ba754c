"""The service proxy of one node. It makes decisions, renders rules, and keeps the kernel's rules up to date."""

from reference.proxy.proxy import ServiceProxy

__all__ = ["ServiceProxy"]

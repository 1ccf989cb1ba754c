"""The service proxy of one node: decides, renders rules, and keeps them in the kernel."""

from reference.proxy.proxy import ServiceProxy

__all__ = ["ServiceProxy"]

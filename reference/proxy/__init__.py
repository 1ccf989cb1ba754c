"""The service proxy of one node. It decides where connections go, and keeps the rules in the kernel up to date."""

from reference.proxy.proxy import ServiceProxy

__all__ = ["ServiceProxy"]

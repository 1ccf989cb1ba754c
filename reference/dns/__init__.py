"""A DNS server whose answers for Services depend on the client's node (KEP-536, DNS server changes)."""

from reference.dns.server import DnsServer

__all__ = ["DnsServer"]

"""A DNS server for Services whose answers depend on the client's node (KEP-536, DNS server changes)."""

from reference.dns.server import DnsServer

__all__ = ["DnsServer"]

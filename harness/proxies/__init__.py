"""The service proxies under test."""

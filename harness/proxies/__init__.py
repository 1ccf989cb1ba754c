"""What a node runs: the service proxies under test."""

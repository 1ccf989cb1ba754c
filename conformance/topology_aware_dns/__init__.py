"""DNS for Services, and its answers to clients of headless Services with topology keys (KEP-536)."""

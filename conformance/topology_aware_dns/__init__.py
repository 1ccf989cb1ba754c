"""DNS for Services, and what it tells clients of headless Services with topology keys (KEP-536)."""

"""KEP-2433: topology aware hints."""

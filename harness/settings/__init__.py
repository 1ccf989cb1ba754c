"""Convert options into settings: the implementation under test, its claims, and its adapters."""

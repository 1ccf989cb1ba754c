"""Convert options into settings: the judged implementation, its claims, and its adapters."""

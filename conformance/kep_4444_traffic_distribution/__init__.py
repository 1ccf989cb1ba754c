"""KEP-4444: traffic distribution for Services."""

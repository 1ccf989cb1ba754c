"""KEP-3015 as it was in 2022: node-level topology."""

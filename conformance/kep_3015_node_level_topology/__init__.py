"""The 2022 version of KEP-3015: node-level topology."""

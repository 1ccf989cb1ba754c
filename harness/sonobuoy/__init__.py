"""A run as a Sonobuoy plugin."""

"""A run as a whole: its settings, plan, output folder, and the Lease on a real cluster."""

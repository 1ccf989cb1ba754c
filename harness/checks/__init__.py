"""Checks for missing abilities of a machine or a cluster, with the remedy and the affected requirements."""

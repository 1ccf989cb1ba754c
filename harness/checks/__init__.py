"""Checks of whether a machine or cluster lacks abilities, with the remedy and the affected requirements."""

"""Checks of whether a machine or cluster lacks abilities, with the fix and the affected requirements."""

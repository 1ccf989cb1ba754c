"""Derives verdicts from observations. Pure, except for the file of a history."""

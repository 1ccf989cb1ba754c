"""Derives verdicts from observations. Only the history modules read or write files."""

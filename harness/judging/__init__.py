"""Derive verdicts from observations. Only the history module reads or writes a file."""

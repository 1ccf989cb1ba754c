"""Variation of everything that a requirement's sentence does not mention: axes, a run's draws, and their effects."""

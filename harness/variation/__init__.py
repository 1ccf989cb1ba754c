"""Variation of everything that a requirement does not mention: the axes, the draws of a run, and their effects."""

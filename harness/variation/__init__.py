"""Variation of everything that a requirement's sentence does not mention: axes, random values, and their effects."""

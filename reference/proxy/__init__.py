"""A kernel-rule service proxy for one node: decide, render, apply."""

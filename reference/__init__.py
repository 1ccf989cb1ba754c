"""Plain implementations of all components that the KEPs change.

They import neither the harness that runs them nor the conformance suite that tests them.
"""

"""A plain implementation of every component that the KEPs touch.

The reference imports neither the harness that runs it nor the conformance suite that tests it.
"""

"""A plain implementation of every component that the KEPs touch.

It imports neither the harness that runs it nor the suite that judges it.
"""

"""One complete, plain implementation of every component that the KEPs touch.

It stands alone: it imports neither the harness that runs it nor the suite that judges it.
"""

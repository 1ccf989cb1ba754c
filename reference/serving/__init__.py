"""The HTTP server for health and metrics of components, and histograms for metrics that are updated often."""

from reference.serving.histogram import Histogram
from reference.serving.http import Handler, Response, Serving, not_found, plain
from reference.serving.server_loop import ServerLoop

__all__ = ["Handler", "Histogram", "Response", "ServerLoop", "Serving", "not_found", "plain"]

"""An HTTP server for the health checks and metrics of components, and histograms for metrics that change often."""

from reference.serving.histogram import Histogram
from reference.serving.http import Handler, HttpThread, Response, end, not_found, plain

__all__ = ["Handler", "Histogram", "HttpThread", "Response", "end", "not_found", "plain"]

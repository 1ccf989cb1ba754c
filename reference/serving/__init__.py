"""How components tell about themselves: HTTP for health and metrics, and histograms of what is measured often."""

from reference.serving.histogram import Histogram
from reference.serving.http import Handler, Response, Serving, not_found, plain

__all__ = ["Handler", "Histogram", "Response", "Serving", "not_found", "plain"]

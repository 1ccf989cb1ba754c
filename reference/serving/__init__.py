"""HTTP by which components answer about their health and metrics, and histograms for metrics of hot paths."""

from reference.serving.histogram import Histogram
from reference.serving.http import Handler, Response, Serving, not_found, plain

__all__ = ["Handler", "Histogram", "Response", "Serving", "not_found", "plain"]

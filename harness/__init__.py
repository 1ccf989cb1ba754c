"""The harness of a run: clusters, adapters for what is judged, probes, verdicts and reports.

Authors of scenarios import `trafficdist`; nothing outside imports a room of this package.
"""

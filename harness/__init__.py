"""The harness of a run: clusters, adapters for the judged components, probes, verdicts and reports.

Authors of scenarios import `trafficdist`; no code outside imports a subpackage of this package.
"""

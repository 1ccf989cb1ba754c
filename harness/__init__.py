"""The test harness: clusters, adapters for the judged components, probes, verdicts and reports.

Scenarios import `trafficdist`, and no module of this package.
"""

"""The test harness: clusters, adapters for the judged components, probes, verdicts and reports.

Authors of scenarios import `trafficdist`. They import no subpackage of this package.
"""

"""What scenarios run on: clusters, proxies under test, probes, evidence, verdicts and reports."""

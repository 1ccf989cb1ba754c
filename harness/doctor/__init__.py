"""`trafficdist doctor`: lists what a cluster or a machine lacks for a run, the lost requirements, and the remedies."""

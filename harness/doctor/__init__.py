"""`trafficdist doctor`: before a run, what a cluster or a machine lacks for it, what that costs, and the remedy."""

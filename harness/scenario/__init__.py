"""The vocabulary of scenarios: clusters, nodes, and expectations."""

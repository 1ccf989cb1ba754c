"""Value types of the suite: topologies, manifests, outcomes, requirements, releases."""

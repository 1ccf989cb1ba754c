"""The nouns of the suite, as values: topologies, manifests, outcomes, requirements, releases."""

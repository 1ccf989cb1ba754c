"""KEP-536: topologyKeys."""

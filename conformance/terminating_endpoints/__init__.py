"""Traffic while endpoints terminate."""

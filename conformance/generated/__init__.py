"""Generated scenarios: random lifecycles of Services, with expected values from the oracle."""

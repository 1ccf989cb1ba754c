"""Generated scenarios: random lives of Services, with expected values from the oracle."""

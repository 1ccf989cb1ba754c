"""Generated scenarios: random life cycles of Services, with expected values from the oracle."""

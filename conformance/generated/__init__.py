"""Scenarios that nobody thought of: lives of Services, made by a program, with expected values from the oracle."""

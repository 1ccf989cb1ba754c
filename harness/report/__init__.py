"""The output of a run: conformance report, JUnit, Allure results, and the summary on the terminal."""

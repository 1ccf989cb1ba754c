"""The output of a run: conformance report, page, JUnit, Allure results and summary."""

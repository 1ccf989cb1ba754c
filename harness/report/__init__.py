"""The output of a run: conformance report, page, JUnit, Allure results, summary; and the shelf of published reports."""

"""The output of a run: the conformance report, the HTML page, JUnit XML, Allure results and the summary."""

"""What a run leaves behind: conformance report, JUnit, Allure results, and the summary on the terminal."""

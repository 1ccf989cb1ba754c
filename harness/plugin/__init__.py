"""The pytest plugin: fixtures, the recording of tests, and the progress on the terminal."""

"""The pytest plugin: its fixtures, its record of tests, and its progress on the terminal."""

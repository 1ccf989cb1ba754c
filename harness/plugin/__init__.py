"""The pytest plugin: what it offers to tests, what it notes of them, and what a person sees while they run."""

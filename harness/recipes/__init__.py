"""Recipes (YAML files that describe programs under test), and the code that runs these programs in netns."""

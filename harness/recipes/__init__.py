"""Recipes: YAML files that describe programs under test. The package also runs these programs in network namespaces."""

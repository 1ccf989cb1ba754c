"""Recipes of programs that are judged, YAML files, and running them in network namespaces."""

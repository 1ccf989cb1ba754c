"""Recipes of judged programs, which are YAML files, and the code that runs the programs in network namespaces."""

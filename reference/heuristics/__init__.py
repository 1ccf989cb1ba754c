"""Heuristics of your own for `trafficDistribution`: what to write, and the one that ships as an example.

KEP-4444, Implementation specific heuristics: a Service may ask for `<domain>/<name>`. The EndpointSlice controller
looks such a value up among the entry points of the group `trafficdist.heuristics`, calls what it finds without
arguments, and asks the `Heuristic` that it gets for hints:

    [project.entry-points."trafficdist.heuristics"]
    "example.org/PreferFirstZone" = "example_package:PreferFirstZone"
"""

from reference.heuristics.heuristic import Endpoint, Heuristic, HeuristicError, Hints, Node
from reference.heuristics.installed import installed_heuristics
from reference.heuristics.next_zone import PreferNextZone

__all__ = ["Endpoint", "Heuristic", "HeuristicError", "Hints", "Node", "PreferNextZone", "installed_heuristics"]

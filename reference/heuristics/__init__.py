"""The interface for custom `trafficDistribution` heuristics, and an example.

KEP-4444, Implementation specific heuristics: a Service may request `<domain>/<name>`. The EndpointSlice controller
looks up this value in the entry-point group `trafficdist.heuristics`, calls the entry without arguments, and requests
hints from the `Heuristic` that it returns:

    [project.entry-points."trafficdist.heuristics"]
    "example.org/PreferFirstZone" = "example_package:PreferFirstZone"
"""

from reference.heuristics.heuristic import Endpoint, Heuristic, HeuristicError, Hints, Node
from reference.heuristics.installed import installed_heuristics
from reference.heuristics.next_zone import PreferNextZone

__all__ = ["Endpoint", "Heuristic", "HeuristicError", "Hints", "Node", "PreferNextZone", "installed_heuristics"]

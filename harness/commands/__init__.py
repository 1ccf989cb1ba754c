"""The commands of `trafficdist`, one per file. Few top-level imports make --help and completion fast."""

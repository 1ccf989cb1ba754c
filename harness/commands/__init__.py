"""The commands of `trafficdist`, one per file. Top-level imports are few, so that --help and completion stay fast."""

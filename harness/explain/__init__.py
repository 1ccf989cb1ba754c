"""Why the traffic of a Service goes where it goes."""

"""Plain implementations of all components that the KEPs change. They do not import the harness or the suite."""

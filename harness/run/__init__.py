"""A run as a whole: its settings, its plan, its folder, and the real cluster that it holds."""

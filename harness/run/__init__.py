"""A run as a whole: the settings, the plan, the output folder, and the real cluster that the run holds."""

"""A run as a whole: what it is about, its plan, its folder, and the real cluster that it holds."""

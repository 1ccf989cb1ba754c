"""Rules for a run on someone else's cluster: one run at a time, changes only to the run's own objects, no leftovers."""

"""Rules for a run on someone else's cluster: one run at a time, no lasting changes to other objects, no leftovers."""

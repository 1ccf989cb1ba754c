"""Rules for a run on someone else's cluster: only one run at a time, changes only to own objects, no leftovers."""

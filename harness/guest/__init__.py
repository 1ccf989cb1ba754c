"""Rules for a run on someone else's cluster: one run at a time, own objects only, and nothing left behind."""

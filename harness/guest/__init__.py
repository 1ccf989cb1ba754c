"""Rules for a guest on somebody's cluster: one run at a time, own objects only, and nothing left behind."""

"""Being a good guest on somebody's cluster: one run at a time, own objects only, and nothing left of them."""

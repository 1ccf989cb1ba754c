"""KEP-2086 and its external counterpart: traffic policies, alone and together with hints."""

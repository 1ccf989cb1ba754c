"""Changes of living objects, field by field: a new value takes effect, the former one ends, and the way back too."""

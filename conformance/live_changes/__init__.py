"""Changes of existing objects, field by field: a new value takes effect, replaces the old one, and can be undone."""

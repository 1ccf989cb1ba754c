"""Commands that only maintainers run. They are not part of the wheel."""

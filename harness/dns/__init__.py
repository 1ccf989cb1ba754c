"""DNS servers under test."""

"""DNS servers under test, and what pods are told by them."""

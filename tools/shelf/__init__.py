"""The shelf: published reports, each in a folder named after the implementation, and an index of all reports."""

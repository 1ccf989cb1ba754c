"""The page of a run: one HTML file with pictures, which needs neither network nor server."""

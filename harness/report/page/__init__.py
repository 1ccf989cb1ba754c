"""The page of a run: a single HTML file with pictures, which needs neither a network nor a server."""

"""The page of a run: a single HTML file with diagrams. Viewing it needs neither a network nor a server."""

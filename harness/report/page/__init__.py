"""The page of a run: one HTML file with pictures, which needs neither network nor server.

`cluster_map` and `lanes` lay pictures out as values, `drawing` puts them into SVG, `details` is what is told of one
requirement, and `page` puts all of it into the template.
"""

"""The shelf: published reports, each in a folder named after the implementation, and an index of all.

`place` names the folder of a report, `adding` publishes a run, and `checking` checks a submitted report. `entry` is the
index entry of a report, `memory` caches entries, `stated` reads documented deviations. `matrix` makes the cells,
`markdown` and `page` show them, and `index` writes the files.
"""

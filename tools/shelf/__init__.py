"""The shelf: published reports, each in a folder named after the implementation, and an index of all reports.

`place` computes the folder of a report, `adding` publishes a run, and `checking` checks a submitted report. `entry` is
the index entry of a report, and `stated` reads documented deviations. `matrix` creates the cells, `pages` displays
them, and `index` writes the files and caches entries.
"""

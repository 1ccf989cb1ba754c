"""The shelf: published reports, each in a folder named after the implementation, and an index of all reports.

`report_folder` computes the folder of a report, `add` publishes a run, and `check` checks a submitted report. `entry`
creates the index entry of a report, and `deviations` reads documented deviations. `matrix` computes the cells of the
index's tables, `pages` generates the pages, and `index` writes the files and caches entries.
"""

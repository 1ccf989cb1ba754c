"""The shelf: published reports, each in the folder of what was judged, and the index that is made from them.

`place` says which folder a report belongs into, `adding` puts a run there, and `checking` judges what others have
put there. `entry` is what the index knows of a report, `memory` what it need not derive again, `stated` what the
documentation of a project says; `matrix` has the cells, `markdown` and `page` show all, and `index` writes it.
"""

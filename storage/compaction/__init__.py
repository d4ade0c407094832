"""Compaction of a log: what is due, what is retained, and how new segments replace old ones.

`log_selection.py` (pure) says which log is due and `task.py` what a child process is given. `segment_replacement.py`
installs the result in the broker, so that old segments are there or new ones, never a mixture. The rest runs in the
child: `cleaning.py`, `offset_map_builder.py` with the newest record of each key (`packed_keys.py`: 24 bytes each),
`record_filter.py`.

May import the modules of `storage/` that read files, and `protocol/records`. Never runs in the broker's loop, but for
the replacement, and never removes a record that is not on the disk.
"""

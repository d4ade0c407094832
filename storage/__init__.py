"""The logs of one machine, in Apache Kafka's files, with their indexes, recovery, retention and compaction.

`log.py` is what callers use. `log_state.py` owns a log's fields, and the modules that change a log (`appending`,
`follower_append`, `truncation`, `flushing`, `segment_deletion`) take a `LogState`; none of them imports `log.py`.
`log_manager.py` has all logs, `log_directory.py` those of one directory, `recovery.py` opens a partition after a crash.

May import `protocol`, and `system` for calls of the operating system. Never knows which replica leads, nor requests;
never opens a file but in `disk.py`; never rewrites bytes that were served; never trusts an index or a checkpoint
unchecked.
"""

from sordini.system.supported import check_system

check_system()

"""How far groups are behind, as far as one broker knows: when offsets were appended, how fast they are committed.

offset_history.py    where an offset was at which time; pure
append_watch.py      the log ends of this broker's partitions, sampled once a second
commit_watch.py      the committed offsets of the groups coordinated here, sampled every few seconds
unread_handler.py    DescribeUnreadRecords: the oldest record that a group has not read
progress_handler.py  DescribeGroupProgress: committed offsets and how fast they advance

Nothing here is called by an append or a commit, and no record is read but by a request. What is remembered is bounded
for each partition (`SAMPLES_MAX`) and lost with a restart: then bounds are answered (`at least`), never guesses.
"""

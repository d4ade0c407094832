"""What is done with topics and tables: one job file says what, each command is one module here.

`job.py` is what a job is; `reading.py` makes one of a file and says where it is wrong, `places.py` knows the lines.
`session.py` starts Spark. `flow.py` is the way of one batch: records, rows, the sink and the dead letters;
`position.py` knows where a table, a checkpoint and a topic are. The jobs are `load`, `stream`, `aggregate`, `backfill`,
`audit`, `compact` and `status`.
"""

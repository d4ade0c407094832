"""The jobs of the pipeline: a job file describes one, and each command is one module here.

`job.py` defines a job; `job_file.py` reads and checks its file, `job_file_tree.py` has the lines. `session.py` starts
Spark. `batch_writer.py` writes one batch: records, rows, the sink and the dead letters. `checkpoints.py`,
`state_folder.py` and `source_topics.py` handle the positions of checkpoints, jobs and topics. The commands are `load`,
`stream`, `aggregate`, `backfill`, `audit`, `compact`, `resume` and `status`.
"""

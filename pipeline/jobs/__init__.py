"""The jobs of the pipeline: a job file describes one, and each command is one module here.

`job.py` defines a job; `job_file.py` reads and checks its file, with a module for each larger section. `session.py`
starts Spark. `batch_writer.py` writes one batch: records, rows, the sink; `dead_letters.py` the records that cannot be
decoded. `checkpoints.py`, `state_folder.py` and `source_topics.py` handle the positions of checkpoints, jobs and
topics. The commands are `load`, `stream`, `aggregate`, `backfill`, `audit`, `compact`, `resume` and `status`.
"""

"""The operating system's side of a broker: the process, its signals, its files and its child processes.

broker_process.py    `sordini serve`: one broker in the foreground or as a daemon; process_context.py its options,
                     process_files.py its files, readiness.py what it reports once it serves
dev_cluster.py       `sordini dev`: several brokers in one process
daemon.py            forking into the background; signals.py, pid_file.py
logging.py           the log, on structlog; log_lines.py its processors, library_lines.py what libraries log, and
                     log_writer.py writes lines without ever waiting for their reader
store_opening.py     the coordination store that the configuration names
cleaning_children.py compaction in child processes
secure_start/        what `serve --secure` makes and sets
"""

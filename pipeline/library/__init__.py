"""How programs run jobs: the functions that `sordini.pipeline` exports. docs/pipeline-library.md describes them.

`writing.py` has what writes rows, `tables.py` what reads and keeps tables, `explanation.py` says what a job would do,
`sessions.py` finds or starts Spark, `results.py` is what is returned, `failures.py` makes PipelineError of the errors
of all libraries. The commands of `cli/` call these functions. A module of this room imports Spark and the tables'
libraries when a function is called.
"""

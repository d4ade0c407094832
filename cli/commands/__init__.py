"""The commands by family. A module with a click command has its reports beside it; requests are in `admin/`.

Decisions are in modules without click (`cluster_problems.py`, `broker_drain.py`), so that tests need no terminal.
"""

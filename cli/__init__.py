"""`sordini`, the command line. `__main__.py` names each command with its module, which is imported when it is used.

`commands/<family>/` has click modules with their requests and reports, `common/` what they share. Records of
`produce` and `consume` go through aiokafka, all else through `client/`.

May import every room but `pipeline`, which registers its own commands. Never prints text from the wire but through
`common/terminal.py`, which escapes it, and never imports Spark or a broker for a command that needs neither.
"""

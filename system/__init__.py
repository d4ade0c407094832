"""What is taken from the operating system: clocks, calls that only Linux has, processes, files' and sockets' options.

`linux.py` decides once, at its import, whether the calls of Linux are used (`SORDINI_PORTABLE=1` forces the portable
ways); modules with such calls open with a table of both. `supported.py` refuses Windows.

`named_tuple.py` is Python's `NamedTuple` for all rooms, made faster: a start makes 330 of them.

Imports no other room. The system's name is asked here and nowhere else.
"""

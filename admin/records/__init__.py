"""Records for people: searched for within bounds, and as they arrive.

search.py        from a position on, or back from the end
tail.py          as they arrive
seen_records.py  a record as it is shown, and which records a search finds; pure
"""

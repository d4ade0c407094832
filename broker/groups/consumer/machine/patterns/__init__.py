"""Regular expressions of subscriptions (KIP-848) in the syntax of RE2/J, by which Apache Kafka resolves them. Pure.

`syntax.py` reads a pattern into a program (`program.py`), and `automaton.py` runs it over names in linear time. It only
matters whether a whole topic name matches: not what a group has matched, nor which repetition is preferred. Topic names
are ASCII, and so is what `characters.py` has of a set; other characters in a pattern are understood, and match nothing.
"""

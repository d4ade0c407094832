"""Topics: what this broker knows of them (`metadata_cache.py`), and their creation, deletion, growth and moves.

Changes are written into the coordination store or requested from the controller; none is made here directly.
"""

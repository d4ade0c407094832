"""The parsing and comparing of schemas, which takes the time that a schema of a stranger needs: in child processes."""

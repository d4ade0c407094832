"""What the records of a registry say, and what is decided on it: pure.

A decision returns records to be appended and an answer, or raises Refusal; only `RegistryState.apply`, which takes the
records that were read back, changes the state. So a registry that starts again, and one that only reads, have the same.
"""

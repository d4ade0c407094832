"""Avro (Apache Avro 1.12, Specification): schemas read, written in canonical form, and resolved against each other."""

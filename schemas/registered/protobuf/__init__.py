"""Protobuf: schemas compiled by Google's compiler, written in canonical form, and compared by their descriptors."""

"""The controller's commands: LeaderAndIsr, UpdateMetadata, StopReplica.

control_wire.py          commands as messages, both ways; one module for each request, wire_values.py in common
command_origin.py        whether a command is from the controller that the store names
command_validation.py    which parts of a command can be valid
command_receiver.py      carries a command out on this broker
deferred_partitions.py   partitions whose log could not be created for lack of descriptors or disk space
"""

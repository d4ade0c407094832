"""The state of a share partition as its coordinator has it: epochs, the start offset, records that are done or were
delivered. Pure.
"""

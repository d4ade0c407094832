"""The machine of a share group: `machine.step` has the transitions. Pure."""

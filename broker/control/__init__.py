"""The controller's commands as they lie on the wire, request by request; `control_wire.py` is the way in."""

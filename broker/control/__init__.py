"""The controller's commands as they lie on the wire, request by request; `broker/control_wire.py` is the way in."""

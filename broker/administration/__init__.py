"""Requests by which an administrator reads and changes a broker: settings, client quotas, log directories, segments,
in `lag/` how far groups are behind, and in `activity/` what the broker itself does.

It may import every subject; no subject imports it. Changes go into the coordination store (`config_admin.py`), and
every broker applies them when it is notified (`config_receiver.py`).
"""

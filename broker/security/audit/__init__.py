"""The audit log: what of logins, denials and changes becomes a line, and how many lines (`line_limiter.py`)."""

"""Logins: `login.py` is one connection's, `exchanges.py` the mechanisms, `users.py` SCRAM's credentials."""

"""What commands share: options and exit codes, output, the terminal, polling, files of settings.

May import `admin`, `client` and `protocol`. Knows no command. Text from the wire is escaped here (`terminal.py`).
"""

"""`sordini serve`, `stop` and `ping`."""

"""`sordini produce` and `consume`."""

"""`sordini topics`, with packs of records."""

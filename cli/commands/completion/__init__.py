"""`sordini completion`: what the Tab key of a shell completes."""

"""`sordini doctor`."""

"""`sordini log`: files of a stopped broker."""

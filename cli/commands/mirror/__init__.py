"""`sordini mirror`: the process around `sordini.mirror`."""

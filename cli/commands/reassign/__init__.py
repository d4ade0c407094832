"""`sordini reassign`: plans of moves, their execution and progress."""

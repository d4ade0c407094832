"""`sordini pipeline`: the jobs on the command line. Spark and the tables are imported when a command needs them."""

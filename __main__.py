"""`python -m sordini`: the same as the command `sordini`."""

from sordini.cli.entry import run

if __name__ == "__main__":
    run()

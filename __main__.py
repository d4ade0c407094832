"""`python -m sordini`: the same as the command `sordini`."""

from sordini.cli.__main__ import main

if __name__ == "__main__":
    main()

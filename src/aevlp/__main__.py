"""`python -m aevlp`."""

from aevlp.cli import main

if __name__ == "__main__":
    main()

"""`python -m aevlp`."""

from aevlp.cli.main import main

if __name__ == "__main__":
    main()

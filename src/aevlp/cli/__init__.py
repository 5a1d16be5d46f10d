"""The command line, one file per command, and the Python interface (`api`)."""

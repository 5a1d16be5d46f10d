"""Checks of a machine, each in a process of its own."""

"""The commands: one file each, a function from arguments to what is printed and written.

Heavy libraries are loaded by the command that needs them, after its arguments are read: help and errors come at once.
"""

"""What goes wrong in a way the user can put right."""


class UserError(Exception):
    """One clear line: which file or option, what is wrong, what to do. The command line prints it and exits with 2."""

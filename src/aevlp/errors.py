"""What goes wrong in a way the user can put right."""


def require(holds: bool, option: str, wanted: str, value: object) -> None:
    """Refuses the value of an option unless it holds."""
    if not holds:
        raise UserError(f"--{option} must be {wanted}, not {value}")


class UserError(Exception):
    """One clear line: which file or option, what is wrong, what to do. The command line prints it and exits with 2."""

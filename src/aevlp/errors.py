"""What goes wrong in a way the user can put right."""


def require(holds: bool, option: str, wanted: str, value: object) -> None:
    """Refuses the value of an option unless it holds."""
    if not holds:
        raise UserError(f"--{option} must be {wanted}, not {value}")


class UserError(Exception):
    """One clear line: which file or option, what is wrong, what to do. The command line prints it and exits with 2."""


def one_line(error: BaseException) -> str:
    """The error's kind and the first line of what it says, for the end of a one-line message."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__

"""The two linear schedules of the robust losses, as functions of the epoch."""


def beta(first: float, last: float, epoch: int, epochs: int) -> float:
    """The value in epoch 1..epochs of a schedule that starts at `first` and never quite reaches `last` (w and b)."""
    return first + (last - first) * (epoch - 1) / epochs


def alpha(first: float, last: float, epoch: int, epochs: int) -> float:
    """The value in epoch 1..epochs of a schedule that leaves `first` at once and ends at `last` (mu and sigma)."""
    return first + (last - first) * epoch / epochs

"""The two linear schedules of the robust losses, as functions of the epoch. They stand still while a head warms up."""


def beta(first: float, last: float, epoch: int, epochs: int, warmup: int = 0) -> float:
    """The value in epoch 1..epochs of a schedule that starts at `first` and never quite reaches `last` (w and b)."""
    return first + (last - first) * max(epoch - warmup - 1, 0) / (epochs - warmup)


def alpha(first: float, last: float, epoch: int, epochs: int, warmup: int = 0) -> float:
    """The value in epoch 1..epochs of a schedule that leaves `first` at once and ends at `last` (mu and sigma)."""
    return first + (last - first) * max(epoch - warmup, 0) / (epochs - warmup)

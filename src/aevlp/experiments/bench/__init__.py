"""How fast the pipeline is: each figure a ratio of two things timed side by side, so that it means the same on any machine."""

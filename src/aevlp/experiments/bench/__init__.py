"""The speed of the pipeline: each figure is a ratio of two things timed side by side, so that it holds on any machine."""

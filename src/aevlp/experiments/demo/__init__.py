"""The demo world: drawn scenes, and a tour of several methods trained on them."""

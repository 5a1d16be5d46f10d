"""The demo world: drawn scenes, and several methods trained on them."""

"""Training of the two small checkpoints that the demo brings along (`aevlp/models/demo/`)."""

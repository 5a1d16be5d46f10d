"""Training: inputs, features, the loop and its state, evaluation, thresholds, the run folder."""

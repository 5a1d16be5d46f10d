"""Models: checkpoints, the frozen teacher, prompts, the classifier and its heads, the model folder."""

"""Uses of a trained model: predict, complete labels, export and serve."""

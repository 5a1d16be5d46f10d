"""The configuration of a run: options, methods (loss, source and head) and recipes."""

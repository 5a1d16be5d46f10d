"""The store: embeddings on disk in shards with checksums, computed once for all runs. Views and features share it."""

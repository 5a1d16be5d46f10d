"""Embeddings on disk: shards with checksums, claims between processes, filling and inventory. Views and features share it."""

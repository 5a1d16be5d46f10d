"""The store: embeddings on disk in packs with checksums, computed once for every image. Views and features share it."""

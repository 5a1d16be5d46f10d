def images(c): return []

def requests(c): return []

"""Reports: a page about a run, or about many. What it shows is gathered (`evidence`), drawn (`charts`) and laid out (`page`)."""

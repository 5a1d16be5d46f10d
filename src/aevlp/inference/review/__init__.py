"""Review of labels by people: what to look at next, and how good the labels are."""

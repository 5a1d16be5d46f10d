"""Completion of labels: predictors' scores, their fusion, out-of-fold models, the records, one file per output format."""

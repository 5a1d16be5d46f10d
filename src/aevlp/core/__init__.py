"""Foundations that know nothing of images or labels: errors, options, files, locks, seeds, progress, devices, tables."""

"""Several trainings at once: sweeps, the paper's tables, benchmarks of speed, the demo."""

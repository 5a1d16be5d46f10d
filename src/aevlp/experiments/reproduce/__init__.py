"""The paper's tables and figures made again: which trainings each consists of, and what is written about them."""

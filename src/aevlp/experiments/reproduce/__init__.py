"""The paper's tables and figures, reproduced: the trainings that each consists of, and the files written about them."""

"""Completing labels: what the teacher and a trained model say of images of which only some labels are known."""

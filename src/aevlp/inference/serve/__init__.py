"""A web service for a trained model: a page for people, an interface for programs."""

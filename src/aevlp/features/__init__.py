"""Features of images: what a head learns from in linear mode, without a pass of the backbone."""

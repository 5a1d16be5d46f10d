"""The demo world: drawn scenes, a small CLIP and a small backbone, to try everything with no data and no download."""

from pathlib import Path

CLIP_FOLDER = Path(__file__).parent / "clip"
BACKBONE_FOLDER = Path(__file__).parent / "backbone"

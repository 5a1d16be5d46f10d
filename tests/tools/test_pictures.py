"""The pictures of the documentation are drawn by the code that they explain."""

from PIL import Image
from tools.pictures import main


def test_all_pictures_are_drawn(tmp_path):
    main(["--out", str(tmp_path)])
    sizes = {path.name: Image.open(path).size for path in tmp_path.iterdir()}
    assert sizes == {"views.png": (990, 506), "teacher.png": (990, 506), "loss.png": (990, 297)}
    for name in sizes:
        colours = Image.open(tmp_path / name).convert("RGB").getcolors(1 << 24)
        assert colours is not None
        assert len(colours) > 50, name

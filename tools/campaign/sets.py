"""Small image sets in the layouts of the benchmarks, made of the images of the demo's world."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aevlp.data.benchmarks import CUB, NUS, VOC

PARTS = {"train": slice(0, 8), "val": slice(8, 12)}


def write_benchmarks(folder: Path, pictures: Sequence[Path]) -> None:
    """Write `voc/`, `nus/`, `cub/` and `npy/` into a folder, with twelve images each."""
    rng = random.Random(0)
    _write_voc(folder / "voc" / "VOC2012", pictures, rng)
    _write_nus(folder / "nus", pictures, rng)
    _write_cub(folder / "cub" / "CUB_200_2011", pictures, rng)
    _write_npy(folder / "npy", pictures)


def _copied(folder: Path, pictures: Sequence[Path]) -> list[str]:
    folder.mkdir(parents=True)
    for picture in pictures[:12]:
        shutil.copy(picture, folder)
    return [picture.name for picture in pictures[:12]]


def _lines(file: Path, lines: Sequence[object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))


def _write_voc(root: Path, pictures: Sequence[Path], rng: random.Random) -> None:
    names = [Path(name).stem for name in _copied(root / "JPEGImages", pictures)]
    for part, chosen in PARTS.items():
        _lines(root / "ImageSets" / "Main" / f"{part}.txt", names[chosen])
        for name in VOC.classes:
            marks = [f"{each} {rng.choice(('-1', ' 0', ' 1'))}" for each in names[chosen]]
            _lines(root / "ImageSets" / "Main" / f"{name}_{part}.txt", marks)


def _write_nus(root: Path, pictures: Sequence[Path], rng: random.Random) -> None:
    names = [f"all\\{name}" for name in _copied(root / "Flickr" / "all", pictures)]
    for part, chosen in {"Train": PARTS["train"], "Test": PARTS["val"]}.items():
        _lines(root / "ImageList" / f"{part}Imagelist.txt", names[chosen])
        for name in NUS.classes:
            marks = [rng.randrange(2) for _ in names[chosen]]
            _lines(root / "Groundtruth" / "TrainTestLabels" / f"Labels_{name}_{part}.txt", marks)


def _write_cub(root: Path, pictures: Sequence[Path], rng: random.Random) -> None:
    names = [f"001.bird/{name}" for name in _copied(root / "images" / "001.bird", pictures)]
    _lines(root / "images.txt", [f"{number} {name}" for number, name in enumerate(names, 1)])
    _lines(root / "train_test_split.txt", [f"{number} {int(number <= 8)}" for number in range(1, 13)])
    _lines(root.parent / "attributes.txt", [f"{number} {name}" for number, name in enumerate(CUB.classes, 1)])
    cells = [(image, label) for image in range(1, 13) for label in range(1, len(CUB.classes) + 1)]
    _lines(root / "attributes" / "image_attribute_labels.txt", [f"{i} {c} {rng.randrange(2)} 3 1.5" for i, c in cells])


def _write_npy(root: Path, pictures: Sequence[Path]) -> None:
    names = _copied(root / "images", pictures)
    labels = np.random.default_rng(0).integers(0, 2, (12, 4)).astype(np.float64)
    for part, chosen in PARTS.items():
        np.save(root / f"formatted_{part}_images.npy", np.array(names[chosen]))
        np.save(root / f"formatted_{part}_labels.npy", labels[chosen])
    np.save(root / "formatted_train_labels_obs.npy", labels[PARTS["train"]])
    _lines(root / "classes.txt", ["one", "two", "three", "four"])

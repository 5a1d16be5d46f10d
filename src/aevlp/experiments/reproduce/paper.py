"""The figures that the paper reports: test mAP in percent, and the precision and recall of DAMP's labels."""

from collections.abc import Mapping
from typing import NamedTuple


class Sets(NamedTuple):
    """A figure on each of the paper's data sets; the names are those of the recipes."""

    voc: float
    coco: float
    nus: float
    cub: float


TITLES: Mapping[str, str] = {"voc": "VOC", "coco": "COCO", "nus": "NUS", "cub": "CUB"}
"""Recipe -> the name of its data set in the paper."""

TABLE1: Mapping[str, Sets] = {
    "full": Sets(89.42, 76.78, 52.08, 30.90),
    "an": Sets(85.89, 64.92, 42.27, 18.31),
    "role": Sets(87.77, 67.04, 41.63, 13.66),
    "em": Sets(89.09, 70.70, 47.15, 20.85),
    "em-apl": Sets(89.19, 70.87, 47.59, 21.84),
    "boostlu+ll-r": Sets(89.29, 72.89, 49.59, 19.8),
    "smile": Sets(86.31, 63.33, 43.61, 18.61),
    "mime": Sets(89.20, 72.92, 48.74, 21.89),
    "gr": Sets(89.83, 73.17, 49.08, 21.64),
    "vlpl": Sets(89.10, 71.45, 49.55, 24.02),
    "aevlp": Sets(90.46, 73.54, 50.70, 24.89),
}
"""Every method, a ResNet-50 at 448 px."""

TABLE2: Mapping[str, Sets] = {
    "bce+random": Sets(86.84, 67.46, 41.23, 10.69),
    "gpr+random": Sets(87.33, 70.00, 43.60, 14.98),
    "vlpl": Sets(89.1, 71.45, 49.55, 24.02),
    "gpr+vlpl": Sets(89.52, 72.83, 49.93, 24.22),
    "ll-ct": Sets(89.00, 70.50, 48.00, 20.40),
    "gpr+ll-ct": Sets(89.5, 71.66, 47.72, 20.41),
    "bce+damp": Sets(88.72, 71.89, 48.60, 24.01),
    "gpr+damp": Sets(90.46, 73.54, 50.7, 24.89),
}
"""The GPR loss on the labels of several sources, each below the loss that it is compared with."""

TABLE3: Mapping[str, Sets] = {
    "precision": Sets(65.13, 84.79, 37.09, 19.07),
    "accumulated_precision": Sets(60.33, 81.59, 34.49, 18.29),
    "recall": Sets(48.29, 24.68, 8.84, 11.37),
    "accumulated_recall": Sets(51.1, 26.84, 10.06, 13.88),
}
"""Quality of DAMP's labels: on average over the epochs, and of all epochs together."""

TABLE4: Mapping[str, Sets] = {
    #  G T r v4 R L3: the letters that are there are switched on
    "T": Sets(90.28, 73.07, 50.00, 24.14),
    "G T": Sets(90.21, 73.37, 50.32, 24.27),
    "G r": Sets(90.13, 73.32, 50.46, 24.15),
    "G T r": Sets(90.22, 73.14, 50.57, 24.24),
    "G T r v4": Sets(90.31, 73.40, 50.37, 24.73),
    "G T r v4 R": Sets(90.38, 73.51, 50.64, 24.83),
    "G T r v4 R L3": Sets(90.46, 73.54, 50.70, 24.89),
}
"""Components switched on one after another."""

TABLE5: Mapping[str, Sets] = {
    "2": Sets(90.13, 73.07, 50.25, 24.37),
    "3": Sets(90.08, 73.13, 50.19, 24.38),
    "4": Sets(90.46, 73.54, 50.7, 24.48),
    "5": Sets(90.21, 73.48, 50.35, 24.89),
    "6": Sets(90.21, 73.32, 50.15, 24.67),
}
"""By the number of tiles along each side of the image."""

TABLE6: Mapping[str, Sets] = {
    "ResNet-50": Sets(90.46, 73.54, 50.7, 24.89),
    "ConvNeXt-L-1K": Sets(92.92, 76.14, 50.9, 25.26),
    "ConvNeXt-L-22K": Sets(93.11, 82.69, 54.74, 24.87),
    "ViT-L/14": Sets(93.10, 81.39, 54.98, 23.36),
}
"""By backbone."""

SETTING = (
    "ResNet-50 with torchvision's first ImageNet weights (`timm/resnet50.tv_in1k`) at 448 px, labels by CLIP ViT-B/16 at 224 px "
    "(those of VLPL by ViT-L/14 at 336 px), three runs"
)
"""The models and the number of runs behind the paper's figures."""

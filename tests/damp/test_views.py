import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from aevlp.damp import boxes
from aevlp.damp.views import (
    Plan,
    ViewSettings,
    _resize,
    decode,
    floor_boxes,
    plan_views,
    render,
    resized_as_floats,
    views,
)
from aevlp.data.image_files import digests
from tests.colours import write_world

SETTINGS = ViewSettings(size=16, grid=4, overlap=0.2, augment=True, seed=0)


@settings(deadline=None, max_examples=300)
@given(
    width=st.integers(1, 10_000),
    height=st.integers(1, 10_000),
    grid=st.integers(1, 7),
    overlap=st.sampled_from([0.0, 0.2, 1.0, 9.0]),
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(["numpy", "torch"]),
)
def test_boxes_cover_their_cells_and_stay_inside(width, height, grid, overlap, seed, kind):
    rng = np.random.default_rng(seed) if kind == "numpy" else torch.Generator().manual_seed(seed)
    found = boxes(width, height, grid, rng, overlap).tolist()
    assert len(found) == grid * grid + 1
    assert found[0] == [0, 0, width, height]
    for number, (left, top, right, bottom) in enumerate(found[1:]):
        row, column = divmod(number, grid)
        cell = (column * width / grid, row * height / grid, (column + 1) * width / grid, (row + 1) * height / grid)
        assert 0 <= left <= cell[0] + 1e-9
        assert 0 <= top <= cell[1] + 1e-9
        assert cell[2] - 1e-9 <= right <= width
        assert cell[3] - 1e-9 <= bottom <= height
        assert left >= cell[0] - overlap * width / grid - 1e-9
        assert bottom <= cell[3] + overlap * height / grid + 1e-9


def test_a_generator_of_torch_decides_on_the_boxes():
    one, same, other = (boxes(40, 30, 4, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.dtype == torch.float64


def test_a_digest_that_ends_with_zeros_gives_the_same_views_with_and_without_them():
    """numpy cuts them off."""
    whole = bytes(range(1, 14)) + b"\0\0\0"
    one, other = (plan_views(SETTINGS, 0, digest, 40, 30) for digest in (whole, whole.rstrip(b"\0")))
    assert torch.equal(one.boxes, other.boxes)
    assert (one.amounts == other.amounts).all()


def test_views_of_one_image_have_augmentations_of_their_own():
    drawn = [set(plan_views(SETTINGS, draw, b"image", 40, 30).augmentation.tolist()) - {0} for draw in range(20)]
    assert max(map(len, drawn)) >= 3


@pytest.mark.parametrize("box", [(3.2, 1.1, 3.3, 1.2), (3.0, 1.0, 4.0, 2.0)])
def test_a_view_of_a_single_pixel_shows_that_pixel(box):
    image = torch.arange(4 * 6 * 3, dtype=torch.uint8).reshape(4, 6, 3)
    settings = ViewSettings(size=8, grid=0, overlap=0.2, augment=False, seed=0)
    plan = Plan(torch.tensor([box]), np.zeros(1, bool), np.zeros(1, np.int64), np.zeros((1, 4)))
    assert (render(image, plan, settings) == image[1, 3]).all()


def test_augmentations_go_both_ways_and_use_their_whole_range():
    drawn = np.concatenate([plan_views(SETTINGS, draw, b"image", 40, 30).amounts for draw in range(60)])
    assert drawn.min() >= -1
    assert drawn.max() < 1
    for amount in drawn.T:  # the angle; brightness, contrast, saturation, hue
        assert amount.min() < -0.95
        assert amount.max() > 0.95
        assert abs(amount.mean()) < 0.1


def test_left_and_right_share_a_draw_and_so_do_top_and_bottom():
    found = boxes(400, 300, 4, np.random.default_rng(0))[1:].view(4, 4, 4)
    inner = found[1:3, 1:3].reshape(-1, 4)  # cells that no edge cuts
    cells = torch.tensor([[c * 100.0, r * 75.0, c * 100.0 + 100, r * 75.0 + 75] for r in (1, 2) for c in (1, 2)])
    grown = (inner - cells).abs()
    assert torch.allclose(grown[:, 0], grown[:, 2])
    assert torch.allclose(grown[:, 1], grown[:, 3])
    assert (grown[:, 0] / 100 - grown[:, 1] / 75).abs().min() > 1e-3  # width and height have draws of their own
    assert len(set(grown[:, 0].tolist())) == 4


def test_growth_is_uniform_up_to_the_overlap():
    rng = np.random.default_rng(0)
    shares = torch.cat([(100 - boxes(400, 400, 4, rng)[6:7, 0]) / 100 for _ in range(2000)])
    assert 0 <= shares.min() < 0.005
    assert 0.195 < shares.max() <= 0.2
    assert shares.mean().item() == pytest.approx(0.1, abs=0.005)


def test_without_overlap_the_tiles_are_the_grid():
    found = boxes(8, 4, 2, np.random.default_rng(0), overlap=0)
    assert found.tolist() == [[0, 0, 8, 4], [0, 0, 4, 2], [4, 0, 8, 2], [0, 2, 4, 4], [4, 2, 8, 4]]


def test_released_code_loses_the_last_columns_and_rows():
    assert floor_boxes(11, 7, 2).tolist() == [[0, 0, 11, 7], [0, 0, 5, 3], [5, 0, 10, 3], [0, 3, 5, 6], [5, 3, 10, 6]]
    for width, height in ((1, 1), (2, 9), (3, 3)):
        inside = floor_boxes(width, height, 4)
        assert (inside[:, 2] <= width).all()
        assert (inside[:, 3] <= height).all()
        assert (inside[:, 2:] > inside[:, :2]).all()


def test_views_depend_on_seed_draw_and_content_and_on_nothing_else(tmp_path):
    world = write_world(tmp_path / "world", train=6, test=0)
    names = sorted(p.name for p in (world / "images").iterdir())
    digest_of = dict(zip(names, digests([world / "images" / name for name in names]), strict=True))

    def all_views(order, draw=0, settings=SETTINGS):
        return {name: views(world / "images" / name, digest_of[name], draw, settings).numpy().tobytes() for name in order}

    forwards, backwards = all_views(names), all_views(names[::-1])
    assert forwards == backwards
    assert all_views(names[2:3])[names[2]] == forwards[names[2]]
    assert all_views(names, draw=1)[names[0]] != forwards[names[0]]
    other = ViewSettings(size=16, grid=4, overlap=0.2, augment=True, seed=1)
    assert all_views(names, settings=other)[names[0]] != forwards[names[0]]


def test_plans_have_the_shares_of_augmentations_that_the_method_names():
    plans = [plan_views(SETTINGS, 0, b"image %d" % i, 100, 100) for i in range(600)]
    flipped = np.concatenate([plan.flipped for plan in plans])
    change = np.concatenate([plan.augmentation for plan in plans])
    assert flipped.mean() == pytest.approx(0.5, abs=0.02)
    assert (change > 0).mean() == pytest.approx(0.2, abs=0.02)
    for kind in (1, 2, 3, 4):
        assert (change == kind).mean() == pytest.approx(0.05, abs=0.01)


def test_resize_only_when_augmentation_is_off():
    plan = plan_views(ViewSettings(size=16, grid=4, overlap=0.2, augment=False, seed=0), 0, b"a", 100, 100)
    assert not plan.flipped.any()
    assert not plan.augmentation.any()


def test_released_code_flips_and_changes_nothing_else():
    settings = ViewSettings(size=16, grid=4, overlap=0.2, augment=True, seed=0, released_code=True)
    plan = plan_views(settings, 0, b"a", 101, 99)
    assert plan.flipped.any()
    assert not plan.augmentation.any()
    assert plan.boxes.tolist() == floor_boxes(101, 99, 4).tolist()


def picture(width=120, height=80):
    rng = np.random.default_rng(3)
    small = Image.fromarray(rng.integers(0, 256, (height // 2, width // 2, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def pixels(image):
    return torch.from_numpy(np.array(image))


def augmented_by_pillow(view, change, amounts):
    """The weak changes as Pillow makes them."""
    if change == 1:
        return view.rotate(15 * amounts[0], Image.Resampling.BILINEAR)
    if change == 2:
        for kind, amount in zip((ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color), amounts, strict=False):
            view = kind(view).enhance(1 + 0.2 * amount)
        hue, *rest = view.convert("HSV").split()
        shift = round(256 * 0.2 * amounts[3])
        return Image.merge("HSV", (hue.point([(h + shift) % 256 for h in range(256)]), *rest)).convert("RGB")
    return ImageEnhance.Sharpness(view).enhance(1.5) if change == 3 else ImageOps.autocontrast(view)


def views_by_pillow(image, plan, settings):
    """One view after another: crop, resize, flip, change."""
    found = []
    for i, box in enumerate(plan.boxes.tolist()):
        view = image.crop(tuple(round(edge) for edge in box)).resize((settings.size,) * 2, Image.Resampling.BICUBIC)
        if plan.flipped[i]:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if plan.augmentation[i]:
            view = augmented_by_pillow(view, plan.augmentation[i], plan.amounts[i])
        found.append(np.asarray(view))
    return np.stack(found).astype(int)


@pytest.mark.parametrize(("augment", "allowed"), [(False, 0.5), (True, 1.0)])
@pytest.mark.parametrize("size", [(500, 375), (333, 500), (97, 61)])
def test_views_are_what_pillow_would_make_one_by_one(size, augment, allowed):
    settings = ViewSettings(size=96, grid=4, overlap=0.2, augment=augment, seed=0)
    image = picture(*size)
    for draw in range(3):
        plan = plan_views(settings, draw, b"a", *size)
        found = render(pixels(image), plan, settings).numpy()
        differences = np.abs(found - views_by_pillow(image, plan, settings)).mean((1, 2, 3))
        assert differences.mean() <= allowed
        assert differences.max() <= (4 if augment else 0.5)  # Pillow has 256 hues, and rotates its border otherwise


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_devices_that_resize_floats_see_the_same(mode):
    smooth = picture().resize((24, 16)).resize((120, 80), Image.Resampling.BICUBIC)
    image = pixels(smooth)[10:50, 20:90].contiguous()
    bytewise = torch.empty((64, 64, 3), dtype=torch.uint8)
    _resize(image, mode, bytewise)
    floats = resized_as_floats(image.permute(2, 0, 1)[None], 64, mode)[0].permute(1, 2, 0)
    assert (floats - bytewise).abs().mean() < 0.5
    assert (floats - bytewise).abs().max() <= 2


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [8, 90])
def test_devices_that_resize_floats_see_the_same_of_hard_edges(mode, size):
    """Made smaller, every pixel counts; made larger, bicubic would go beyond black and white."""
    noise = np.random.default_rng(0).integers(0, 2, (40, 40, 3), dtype=np.uint8) * 255
    image = torch.from_numpy(noise)
    bytewise = torch.empty((size, size, 3), dtype=torch.uint8)
    _resize(image, mode, bytewise)
    floats = resized_as_floats(image.permute(2, 0, 1)[None], size, mode)[0].permute(1, 2, 0)
    assert (floats - bytewise).abs().mean() < 3  # bytes are cut off at 0 and 255 after each of two passes
    if size == 90:
        assert floats.min() == 0
        assert floats.max() == 255


def test_views_are_made_in_place_where_asked():
    settings = ViewSettings(size=16, grid=2, overlap=0.2, augment=True, seed=0)
    plan, image = plan_views(settings, 0, b"a", 120, 80), pixels(picture())
    memory = torch.zeros((7, 16, 16, 3), dtype=torch.uint8)
    render(image, plan, settings, memory[1:6])
    assert torch.equal(memory[1:6], render(image, plan, settings))
    assert not memory[[0, 6]].any()


def plan_of(change: int, *, flipped: bool = False, amounts=(0.0, 0.0, 0.0, 0.0)) -> Plan:
    return Plan(
        torch.tensor([[0.0, 0.0, 120.0, 80.0]]), np.array([flipped]), np.array([change]), np.array([amounts], dtype=np.float64)
    )


ONE = ViewSettings(size=32, grid=0, overlap=0, augment=True, seed=0)


def test_augmentations_do_what_they_are_called():
    image = picture()

    def view(change, image=image, **options):
        return render(pixels(image), plan_of(change, **options), ONE)[0].numpy().astype(int)

    plain = view(0)
    assert (view(0, flipped=True) == plain[:, ::-1]).mean() > 0.99
    assert (view(1) == plain).mean() > 0.99  # an angle of 0
    assert (view(1, amounts=(1.0, 0, 0, 0))[0, 0] == 0).all()  # a corner that left the picture
    assert view(2, amounts=(1.0, 0, 0, 0)).mean() > plain.mean() * 1.1
    assert view(2, amounts=(-1.0, 0, 0, 0)).mean() < plain.mean() * 0.9
    assert np.ptp(view(2, amounts=(0, 0, -1.0, 0)), axis=-1).mean() < 0.9 * np.ptp(plain, axis=-1).mean()
    shifted = view(2, amounts=(0, 0, 0, 1.0))
    assert np.abs(shifted - plain).mean() > 10
    assert np.abs(shifted.max(-1) - plain.max(-1)).mean() < 2  # another hue, the same brightness
    assert np.diff(view(3), axis=1).std() > np.diff(plain, axis=1).std()
    spread = view(4, image.point(lambda v: 100 + v // 4))
    assert spread.min() == 0
    assert spread.max() == 255
    assert (view(4, Image.new("RGB", (120, 80), (7, 8, 9))) == (7, 8, 9)).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (3, 2), (5000, 4)])
@pytest.mark.parametrize("released_code", [False, True])
def test_images_of_any_shape_have_views(tmp_path, size, released_code):
    Image.new("RGB", size, (200, 10, 10)).save(tmp_path / "thin.png")
    settings = ViewSettings(size=16, grid=5, overlap=0.2, augment=False, seed=0, released_code=released_code)
    found = views(tmp_path / "thin.png", b"thin", 0, settings).numpy()
    assert found.shape == (26, 16, 16, 3)
    assert (found == (200, 10, 10)).all()


def test_large_jpegs_are_decoded_small_and_look_the_same(tmp_path):
    picture(1600, 1200).resize((40, 30)).resize((1600, 1200), Image.Resampling.BICUBIC).save(tmp_path / "large.jpg", quality=95)
    settings = ViewSettings(size=32, grid=4, overlap=0.2, augment=False, seed=0)
    assert decode(tmp_path / "large.jpg", settings).shape == (150, 200, 3)
    found = views(tmp_path / "large.jpg", b"large", 0, settings).numpy()
    with Image.open(tmp_path / "large.jpg") as image:
        whole = image.convert("RGB")
    expected = render(pixels(whole), plan_views(settings, 0, b"large", *whole.size), settings).numpy()
    assert np.abs(found.astype(int) - expected).mean() < 2

import threading

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from aevlp.core.errors import UserError
from aevlp.damp.scoring import Scorer
from aevlp.damp.views import ViewSettings, views
from aevlp.data.image_files import digests
from aevlp.data.images import BadImage
from aevlp.store.fill import Job
from tests.colours import ColourTeacher, write_world

SETTINGS = ViewSettings(size=16, grid=2, overlap=0.2, augment=True, seed=0)
MEAN, STD = (0.5, 0.4, 0.3), (0.5, 0.25, 0.2)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = write_world(tmp_path_factory.mktemp("world") / "world", train=23, test=0) / "images"
    return sorted(folder.iterdir())


def scorer(batch_size=None, **options):
    return Scorer(
        ColourTeacher(), SETTINGS, mean=MEAN, std=STD, accelerator=Accelerator(cpu=True), batch_size=batch_size, **options
    )


def job(paths, draw):
    return Job(paths, digests(paths), draw)


def naive(paths, draw):
    """View by view: to floats, normalised, one at a time through the teacher."""
    rows = []
    for path, digest in zip(paths, digests(paths), strict=True):
        for view in views(path, digest, draw, SETTINGS):
            x = (view.permute(2, 0, 1).double() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
            embedding = ColourTeacher().encode_images(x[None].float())[0]
            rows.append((embedding / embedding.norm()).numpy())
    return np.stack(rows).reshape(len(paths), 5, -1)


@pytest.mark.parametrize("batch_size", [None, 1, 5, 32, 1000])
@pytest.mark.parametrize("in_threads", [True, False])
def test_jobs_come_back_in_order_with_what_a_plain_loop_sees(images, batch_size, in_threads):
    """Whatever the batches are, and also the way a GPU takes: threads decode, the rest is done where the teacher is."""
    scoring = scorer(batch_size)
    assert not scoring.encodes_in_threads  # a teacher that does not say that this is safe
    scoring.encodes_in_threads = in_threads
    jobs = [job(images[:7], 0), job(images[7:8], 3), job(images[8:], 1)]
    advanced: list[int] = []
    found = list(scoring.embed(iter(jobs), advanced.append))
    assert [done for done, _ in found] == jobs
    for done, embeddings in found:
        assert embeddings.dtype == np.float16
        np.testing.assert_allclose(embeddings, naive(done.paths, done.draw), atol=2e-3)
    assert sum(advanced) == 23
    assert scoring.forward_batches == len(advanced)


def test_an_image_that_is_another_by_now_is_refused(images):
    wrong = Job(images[:2], digests(images[1:3]), 0)
    with pytest.raises(UserError, match=r"changed since this command read it first"):
        list(scorer().embed([wrong]))


def test_batches_go_on_from_job_to_job(images):
    scoring = scorer(batch_size=4 * 5)
    list(scoring.embed([job(images[start : start + 3], 0) for start in range(0, 12, 3)]))
    assert scoring.forward_batches == 3  # of four images each


def test_jobs_are_taken_only_a_little_ahead(images):
    taken = []

    def jobs():
        for number in range(200):
            taken.append(number)
            yield job(images[:1], number)

    stream = scorer(batch_size=5).embed(jobs())
    next(stream)
    assert len(taken) < 50
    stream.close()


def test_what_is_wrong_with_an_image_is_said(images, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(images[0].read_bytes()[:80])
    with pytest.raises(BadImage, match=r"broken\.png"):
        list(scorer().embed([job([*images[:3], broken], 0)]))


def test_threads_of_torch_are_as_before_afterwards(images):
    before = torch.get_num_threads()
    list(scorer().embed([job(images[:5], 0)]))
    assert torch.get_num_threads() == before


def test_a_teacher_that_says_it_is_safe_is_called_from_several_threads(images):
    seen = set()

    class Safe(ColourTeacher):
        is_thread_safe = True

        def encode_images(self, pixels):
            seen.add(threading.current_thread())
            return super().encode_images(pixels)

    scoring = Scorer(Safe(), SETTINGS, mean=MEAN, std=STD, accelerator=Accelerator(cpu=True), batch_size=5)
    assert scoring.encodes_in_threads
    list(scoring.embed([job(images, 0)]))
    assert threading.main_thread() not in seen
    assert len(seen) <= torch.get_num_threads()


def test_in_eight_bits_an_image_does_not_depend_on_its_neighbours():
    assert scorer(batch_size=1000, precision="int8").images_per_batch == 1

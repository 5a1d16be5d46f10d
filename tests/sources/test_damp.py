"""The damp source: what it scores, what it keeps, what it labels with."""

import threading
import time

import pytest
import torch
from accelerate import Accelerator

from aevlp.checkpoints import IMAGENET_MEAN, IMAGENET_STD
from aevlp.data import prepare, read
from aevlp.engine import teacher_precision
from aevlp.errors import UserError
from aevlp.recipe import build_config
from aevlp.sources import Task
from aevlp.sources.damp import Damp

SMALL = {"teacher.name": "tests.colours:teacher", "damp.temperature": 0.1, "train.epochs": 3}


@pytest.fixture
def make(world, tmp_path):
    data = prepare(read(world), observe="single")

    def source(**values):
        config = build_config("test", "aevlp", {**SMALL, **values})
        made = Damp(Task(data.train, data.classes, config, tmp_path / "views", Accelerator(cpu=True)), config.source)
        made.fill()
        return made

    return source


def test_labels_change_from_epoch_to_epoch_and_are_mostly_right(make):
    source = make()
    first, second = source.labels(1), source.labels(2)
    assert first.dtype == torch.int8
    assert not torch.equal(first, second)
    assert torch.equal(source.labels(1), first)
    assert (first == -1).sum(1).tolist() == [1] * len(first)  # floor(0.2 * 6) classes


def test_the_noise_of_a_checkpoint_is_used(make):
    source = make(**{"damp.neighbours": 3})
    before = source.labels(1)
    state = source.state()
    source.restore({**state, "weights": [50 * weight for weight in state["weights"]]})
    assert not torch.equal(source.labels(1), before)
    source.restore(state)
    assert torch.equal(source.labels(1), before)


def test_released_code_normalises_as_imagenet_does(make):
    released = make(compat="released-code")
    assert released.looks.scorer.settings.released_code
    assert released.looks.scorer.mean == pytest.approx(IMAGENET_MEAN)
    assert released.looks.scorer.std == pytest.approx(IMAGENET_STD)
    assert (released.labels(1) != -1).all()
    paper = make()
    assert paper.looks.scorer.mean == (0.5, 0.5, 0.5)
    assert released.looks.store is not None
    assert paper.looks.store is not None
    assert released.looks.store.folder != paper.looks.store.folder


def test_later_epochs_take_each_view_from_one_of_the_draws(make):
    source = make(**{"damp.draws": 2})
    draws = [source.looks.store.read(draw, 0) for draw in range(2)]
    mixed = source.looks.seen(3, 0)
    from_first = (mixed == draws[0]).all(-1)
    from_second = (mixed == draws[1]).all(-1)
    assert (from_first | from_second).all()
    assert 0.4 < (from_second & ~from_first).sum() / (from_first ^ from_second).sum() < 0.6
    again = make(**{"damp.draws": 2, "seed": 1}).looks.seen(3, 0)
    assert (again != mixed).any()


def test_without_a_store_the_labels_are_the_same(make, world, tmp_path):
    """Also where a shard ends in the middle of a batch."""
    stored = make()
    data = prepare(read(world), observe="single")
    config = build_config("test", "aevlp", SMALL)
    in_loop = Damp(Task(data.train, data.classes, config, None, Accelerator(cpu=True)), config.source)
    for epoch in (1, 2):
        assert torch.equal(in_loop.labels(epoch), stored.labels(epoch))


def test_half_precision_is_for_gpus_and_eight_bits_for_cpus(make):
    with pytest.raises(UserError, match=r"--teacher\.precision fp16: a CPU cannot"):
        make(**{"teacher.precision": "fp16"})
    with pytest.raises(UserError, match=r"--teacher\.precision int8: not for a teacher of your own"):
        make(**{"teacher.precision": "int8"})
    gpu = torch.device("cuda")
    assert teacher_precision("auto", gpu) == "fp16"
    assert teacher_precision("auto", torch.device("cpu")) == "fp32"
    with pytest.raises(UserError, match="only a CPU computes in it"):
        teacher_precision("int8", gpu)


def test_a_run_does_not_go_on_with_a_teacher_of_another_precision(make):
    source = make()
    with pytest.raises(UserError, match="--resume: the teacher computed in fp16 and would now in fp32"):
        source.restore({**source.state(), "precision": "fp16"})


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_damaged_shard_that_another_run_has_in_hand_is_waited_for(make, is_removed):
    store = make().looks.store
    content = bytearray(store.path(1, 0).read_bytes())
    content[-40] ^= 1
    store.path(1, 0).write_bytes(content)
    claim = store.claim(1, 0)

    def other() -> None:
        time.sleep(1)
        if is_removed:
            store.remove(1, 0)
        claim.release()

    thread = threading.Thread(target=other)
    thread.start()
    make()
    thread.join()
    assert store.damage(1, 0) is None

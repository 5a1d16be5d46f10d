"""Prompt tables: those that come with the package, how a file is read, and what becomes of several prompts."""

import re

import pytest
import torch

from aevlp.config.config import build_config
from aevlp.config.defaults import settings
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.core.errors import UserError
from aevlp.damp.text import text_embeddings
from aevlp.data.benchmarks import BENCHMARKS
from aevlp.models.options import TeacherOptions
from aevlp.models.prompts import class_prompts, prompt_tables, read_table, table_file

COUNTS = {"voc": 20, "coco": 80, "nus": 81, "cub": 312}


def test_every_benchmark_has_a_table_of_all_its_classes():
    assert prompt_tables() == sorted(COUNTS)
    assert {benchmark.name: len(benchmark.classes) for benchmark in BENCHMARKS} == COUNTS


@pytest.mark.parametrize("name", COUNTS)
def test_a_prompt_is_a_sentence_that_stands_for_one_class(name):
    table = read_table(table_file(name))
    everything = [prompt for prompts in table.values() for prompt in prompts]
    assert len(set(everything)) == len(everything)
    for prompt in everything:
        assert re.fullmatch(r"a photo (of|taken) [a-z0-9 ,-]+\.", prompt), prompt
        assert not re.search(r"\ba [aeio]|\ban [^aeiou]|  ", prompt), prompt


def test_classes_are_in_the_official_order():
    voc, coco, nus, cub = (benchmark.classes for benchmark in BENCHMARKS)
    assert list(voc) == sorted(voc)
    assert (voc[0], voc[10], voc[15], voc[19]) == ("aeroplane", "diningtable", "pottedplant", "tvmonitor")
    # Category ids 1, 13, 62 and 90 are the 1st, 12th, 57th and 80th, since ids have gaps.
    assert (coco[0], coco[11], coco[56], coco[79]) == ("person", "stop sign", "chair", "toothbrush")
    assert list(nus) == sorted(nus)
    assert (nus[0], nus[40], nus[80]) == ("airport", "nighttime", "zebra")
    assert cub[0] == "has_bill_shape::curved_(up_or_down)"
    assert cub[248] == "has_primary_color::blue"  # id 249
    assert cub[217] == "has_size::large_(16_-_32_in)"
    assert cub[311] == "has_wing_pattern::multi-colored"
    assert "has_eye_color::iridescent" not in cub


def test_names_that_are_no_words_have_prompts_that_are():
    assert read_table(table_file("voc"))["diningtable"] == ("a photo of a dining table.",)
    assert read_table(table_file("voc"))["tvmonitor"] == ("a photo of a television.", "a photo of a computer monitor.")
    cub = read_table(table_file("cub"))
    assert cub["has_bill_shape::curved_(up_or_down)"] == ("a photo of a bird with a bill curved up or down.",)
    assert cub["has_back_color::orange"] == ("a photo of a bird with an orange back.",)


@pytest.mark.parametrize("name", COUNTS)
def test_the_recipe_of_a_benchmark_uses_its_table(name):
    values = settings(read_recipe(recipe_file(name)), "aevlp", "common")
    assert build_config(name, "aevlp", values).teacher.prompts == name
    assert build_config(name, "aevlp", {**values, "teacher.prompts": "none"}).teacher.prompts is None


class Letters:
    """Counts letters, in half precision."""

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        self.asked = texts
        return torch.tensor([[text.count(letter) / 3 for letter in "adgot"] for text in texts]).half()


def test_the_embeddings_of_several_prompts_are_averaged_and_one_is_left_as_it_is():
    teacher = Letters()
    found = text_embeddings(teacher.encode_texts, [("a dog",), ("a cat", "a tom", "a goat"), ("a toad",)])
    assert teacher.asked == ["a dog", "a cat", "a tom", "a goat", "a toad"]
    alone = teacher.encode_texts(["a dog", "a cat", "a tom", "a goat", "a toad"]).float()
    assert found.dtype == torch.float32
    assert torch.equal(found[0], alone[0])
    assert torch.allclose(found[1], (alone[1] + alone[2] + alone[3]) / 3)
    assert torch.equal(found[2], alone[4])


def test_without_a_table_the_class_names_stand_in_the_template():
    assert class_prompts(None, "it's a {}!", ["dog", "{}"]) == [("it's a dog!",), ("it's a {}!",)]


def test_a_file_may_have_any_order_comments_and_names_that_yaml_takes_for_something_else(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_bytes(
        "\ufeff# mine\n\nno: a photo of a no-entry sign.  # not false\n1: a one\n"
        '"a: b": [  "a photo of a, b.", é ]\nnull:\n  - "null"\n  - nothing\n'.encode()
    )
    found = class_prompts(str(file), "{}", ["1", "null", "a: b", "no"])
    assert found == [("a one",), ("null", "nothing"), ("a photo of a, b.", "é"), ("a photo of a no-entry sign.",)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- dog\n- cat\n", ", line 1: not a table of prompts; a line is class: prompt, such as dog: a photo of a dog."),
        (b"# only\n\ndog\n", ", line 3: not a table of prompts; "),
        (b"", ": no prompts in it; write a line per class"),
        (b"# nothing\n", ": no prompts in it; write a line per class"),
        (b"dog: a dog\ncat:\n", ", line 2: class 'cat' has an empty prompt; write one, such as a photo of a cat."),
        (b"dog: a dog\ncat: ~\n", ", line 2: class 'cat' has an empty prompt; "),
        (b'dog: a dog\ncat: ["a cat", "  "]\n', ", line 2: class 'cat' has an empty prompt; "),
        (b"dog: a dog\ncat: []\n", ", line 2: class 'cat' has an empty prompt; "),
        (b"dog: a dog\ncat:\n  big: a cat\n", ", line 2: class 'cat' must have a prompt, or a list of prompts: "),
        (b"dog: a dog\n? [a, b]\n: c\n", ", line 2: a class must be a single name; put it in quotes"),
        (b"dog: a dog\ncat: a cat\ndog: a puppy\n", ", line 3: class 'dog' is already on line 1; remove one, or list both"),
        (
            b"dog: a dog\ncat: a cat: furry\n",
            ", line 2: cannot be read as YAML: mapping values are not allowed here; a line is class: ",
        ),
        (b"dog: a dog\ncat: [a cat\n", ", line 3: cannot be read as YAML: "),
        (b"dog: a dog\ncat: caf\xe9\n", ", line 2: not UTF-8 text; save it in that encoding"),
        (b"dog: a\x00dog\n", ": cannot be read as YAML: "),
        (b"dog: a dog\n---\ncat: a cat\n", ", line 2: cannot be read as YAML: expected a single document"),
        (b"dog:\n\t- a dog\n", ", line 2: cannot be read as YAML: a tab where only spaces may stand; "),
        (b"dog: " + b"[" * 3000, ": cannot be read as YAML: lists or mappings within each other, too many; a line is"),
    ],
)
def test_a_file_that_is_not_a_table(tmp_path, content, message):
    file = tmp_path / "own.yaml"
    file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        TeacherOptions(prompts=str(file))
    assert str(caught.value).startswith(f"{file}{message}")
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=f"^{tmp_path}: cannot be read \\(Is a directory\\); check the path and its perm"):
        TeacherOptions(prompts=str(tmp_path))
    with pytest.raises(
        UserError, match=r"^--prompts cbu: no such table or file \(did you mean 'cub'\?\); name one of coco, cub, "
    ):
        TeacherOptions(prompts="cbu")


def test_a_file_is_recorded_so_that_it_is_found_from_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "own.yaml").write_text("dog: a dog\n")
    (tmp_path / "voc").write_text("dog: a dog\n")
    monkeypatch.chdir(tmp_path)
    assert TeacherOptions(prompts="own.yaml").prompts == str(tmp_path / "own.yaml")
    assert TeacherOptions(prompts="voc").prompts == "voc"  # the one that comes with the package
    assert TeacherOptions(prompts="./voc").prompts == str(tmp_path / "voc")
    assert TeacherOptions(prompts="none").prompts is None

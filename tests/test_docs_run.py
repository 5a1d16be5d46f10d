"""The documentation: its commands run as they are written, in a folder that has what its pages speak of.

Options are added that make the models small, and that find them without a network. What cannot run here is in `NOT_RUN`.
"""

import ast
import json
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from aevlp.cli.main import main
from aevlp.config.config import build_config
from aevlp.data.benchmarks import VOC
from tests.cli.run import aevlp
from tests.colours import COLOURS, write_world
from tests.conftest import REPOSITORY
from tests.data.readers.test_voc import write_tree
from tests.inference.serve.talk import served
from tests.kinds import as_parquet, as_tar, colour_items
from tests.test_docs_commands import PAGES, commands, words_of

NOT_RUN = {
    "bench": "minutes to an hour of measuring; tests/experiments/bench measures in small",
    "doctor": "two minutes for a device; tests/cli/test_doctor.py and tests/experiments/doctor run its checks",
    "demo": "the whole demo; tests/cli/test_demo.py runs it",
    "train hf://": "needs the hub of Hugging Face",
}
STORY = "your-photos.md"  # it begins with nothing but photos
ON_COLOURS = ["--teacher", "tests.colours:teacher", "--damp.temperature", "0.1", "--device", "cpu"]


def is_run(line: str) -> bool:
    words = words_of(line)
    return "--list" in words or not any(" ".join(words).startswith(start) for start in NOT_RUN)


RUNNING = [page for page in PAGES if any(map(is_run, commands(page.read_text())))]


def test_what_is_not_run_is_in_the_documentation():
    lines = [" ".join(words_of(line)) for page in PAGES for line in commands(page.read_text())]
    for start in NOT_RUN:
        assert any(line.startswith(start) for line in lines), start


def write_features(file: Path, folder: Path) -> None:
    """Eight numbers for each image of a folder."""
    names = sorted(path.name for path in folder.iterdir())
    rows = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    np.savez(file, features=rows, images=np.array(names))


@pytest.fixture(scope="module")
def written(tmp_path_factory, small) -> Path:
    """What the pages speak of: image sets of every kind, runs, features, answers."""
    root = tmp_path_factory.mktemp("documented")
    write_world(root / "photos", train=60)
    table = root / "photos" / "labels.csv"
    header, *rows = table.read_text().splitlines()
    rows = [row.replace(",train", ",val") if number % 4 == 0 else row for number, row in enumerate(rows)]
    table.write_text("\n".join([header, *rows]) + "\n")
    for name in ("DATA", "demo-run/world", "voc2012-224", "voc-z", "sets/2", "WORLD"):
        shutil.copytree(root / "photos", root / name)
    (root / "val-single.csv").write_text("\n".join([header, *(f"photos/{row}" for row in rows)]) + "\n")
    shutil.copytree(root / "photos" / "images", root / "new-photos")
    items = colour_items(root / "items")
    as_parquet(items, root / "photos-parquet")
    as_tar(items, root / "shards", "tags")
    shown = {part: {f"{part}_{n:03d}": {VOC.classes[n % 20]: 1} for n in range(80)} for part in ("train", "val")}
    write_tree(root / "VOCdevkit" / "VOC2012", shown)
    for file in ("embeddings.npz", "new-embeddings.npz", "resnet50.npz"):
        write_features(root / file, root / "new-photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AEVLP_CACHE", str(root / "cache"))
        patch.chdir(root)
        for run in ("runs/first", "runs/second"):
            main(["train", "photos", "--out", run, *small, "--report", "true"])
        for run in ("RUN", "COPY-OF-RUN", "demo-run/aevlp-0"):
            shutil.copytree("runs/first", run)
        main(["label", "photos", "--run", "runs/first", "--out", "photos/completed.jsonl", "--device", "cpu"])
        main(["label", "DATA", "--out", "review/tasks.json", "--out-format", "label-studio", *ON_COLOURS])
    tasks = json.loads((root / "review" / "tasks.json").read_text())
    exported = [{"id": number, **task} for number, task in enumerate(tasks)]
    chosen = {"from_name": "labels", "to_name": "image", "type": "choices", "value": {"choices": ["red"]}}
    exported[0]["annotations"] = [{"id": 1, "result": [chosen], "was_cancelled": False}]
    (root / "review" / "export.json").write_text(json.dumps(exported))
    (root / "photos" / "answers.csv").write_text("image,labels\nimages/001.png,red\n")
    return root


@pytest.fixture
def folder(written, tmp_path, monkeypatch, hub) -> Path:
    """A copy of all that, as the current folder; buckets are in memory, the hub and the trackers on this machine."""
    copied = Path(shutil.copytree(written, tmp_path / "folder"))
    monkeypatch.chdir(copied)
    monkeypatch.setenv("AEVLP_CACHE", str(copied / "cache"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    for module in ("serve", "review"):
        monkeypatch.setattr(f"aevlp.inference.{module}.app.serve_until_stopped", lambda app, listener: None)
    bucket = fsspec.filesystem("memory")
    bucket.put(f"{copied}/photos/", "/bucket/photos/", recursive=True)
    for image in sorted((copied / "new-photos").iterdir())[:3]:
        bucket.pipe_file(f"/bucket/new/{image.stem}.jpg", image.read_bytes())
    return copied


def in_this_folder(words: list[str]) -> list[str]:
    """The words with names of this folder in place of those that stand for something."""
    words = [word.replace("s3://", "memory://").removeprefix("/shared/") for word in words if word != "[KEY...]"]
    key = next(Path("cache/views").glob("*/manifest.json")).parent.name
    meant = {"KEY...": key, "ANSWERS...": "photos/answers.csv"}
    return [meant.get(word, word) for word in words]


def asks_teacher(words: list[str]) -> bool:
    """True if one of the methods that a command names does, or the default that stands where none is named."""
    named = [words[words.index(option) + 1] for option in ("--method", "--methods") if option in words]
    methods = named[0].split(",") if named else ["consensus"]
    return any(build_config("", method, {}).method.source.asks_teacher for method in methods)


def added(words: list[str], plain: list[str]) -> list[str]:
    """Options that make a command quick, and let it do without a network."""
    command = words[0]
    if command in ("train", "compare", "reproduce"):
        network = ["--observe", "single", "--device", "cpu"] if "--features" in words else plain
        teacher = [*ON_COLOURS, "--prompts", "none"] if asks_teacher(words) else []
        shorter = {"train": ["--report", "true"], "reproduce": ["--seeds", "1"], "compare": ["--seeds", "1", "--jobs", "1"]}
        return [*network, *teacher, "--epochs", "1", *shorter[command]]
    return {
        "label": ["--device", "cpu"] if "--run" in words else ON_COLOURS,
        "tune": ON_COLOURS,
        "predict": ["--device", "cpu"],
        "thresholds": ["--device", "cpu"],
        "serve": ["--device", "cpu", "--port", "0"],
        "review": ["--port", "0"],
    }.get(command, [])


def remove(path: Path) -> None:
    """What another page has made, or a section before."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.soak
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(capsys, written, folder, plain, page):
    if page.name == STORY:
        for made in ("runs", "photos/completed.jsonl"):
            remove(Path(made))
    for section in page.read_text().split("\n## "):
        remove(Path("RUN"))  # in every section it is another one
        shutil.copytree(written / "RUN", "RUN")
        for line in filter(is_run, commands(section)):
            words = in_this_folder(words_of(line))
            if "--out" in words and "--dry-run" not in words:
                remove(Path(words[words.index("--out") + 1]))
            answer = aevlp(capsys, *words, *added(words, plain))
            assert answer.code == 0, f"{line}\n{answer.err}"
    if page.name == STORY:
        for made in ("runs/first/report.html", "photos/completed.jsonl", "runs/second/rounds.html", "labels.csv"):
            assert Path(made).is_file(), made


def indented_python(page: Path) -> list[str]:
    """The blocks of a page that begin with an import."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", page.read_text(), re.MULTILINE)
    found = [textwrap.dedent(block).strip() + "\n" for block in blocks]
    return [block for block in found if block.startswith(("import ", "from "))]


def python_of(page: str, module: str) -> str:
    """The one block of a page that imports a module."""
    (block,) = [block for block in indented_python(REPOSITORY / page) if re.match(rf"(import|from) {module}\b", block)]
    return block


def test_every_python_block_outside_the_pages_of_code_is_tested_here():
    pages = [page for page in PAGES if page.name != "add-a-method.md"]  # its code runs in tests/test_add_a_method.py
    modules = [block.split()[1].split(".")[0] for page in pages for block in indented_python(page)]
    assert sorted(modules) == ["datasets", "fiftyone", "pandas", "pycocotools", "requests", "transformers", "transformers"]


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_a_trained_model_is_used_with_transformers(folder, page):
    names: dict[str, Any] = {}
    exec(python_of(page, "transformers"), names)
    found = names["classify"](str(folder / "new-photos" / "000.png"))
    assert {one["label"] for one in found} == set(COLOURS)


def test_completed_labels_are_read_with_other_programs(capsys, folder):
    for name, kind in {"completed.jsonl": "jsonl", "completed.json": "coco", "completed": "parquet"}.items():
        answer = aevlp(capsys, "label", "DATA", "--out", name, "--out-format", kind, *ON_COLOURS)
        assert answer.code == 0, answer.err
    names: dict[str, Any] = {}
    exec(python_of("docs/label-formats.md", "pandas"), names)
    assert len(names["labels"]) == 76
    exec(python_of("docs/label-formats.md", "pycocotools").replace('"car"', '"red"'), names)
    assert 0 < len(names["images"]) < 76
    *block, last = python_of("docs/label-formats.md", "datasets").splitlines()
    assert last == 'data.push_to_hub("OWNER/NAME")'  # it needs the hub of Hugging Face
    exec("\n".join(block), names)
    assert len(names["data"]["train"]) == 45
    assert names["names"].names == list(COLOURS)


def with_colours(text: str, address: str) -> str:
    """What a page shows, with classes of the world of colours, for a service at an address."""
    return text.replace("dog", "red").replace("sofa", "blue").replace("http://127.0.0.1:8000", address)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_service_is_asked_as_its_page_shows(capsys, folder):
    shutil.copy("new-photos/000.png", "red.jpg")
    Path("beach.png").write_bytes(b"no image")
    page = (REPOSITORY / "docs" / "serve.md").read_text().replace("\\\n", " ")
    lines = re.findall(r"^    (curl .*)$", page, re.MULTILINE)
    with served(folder / "RUN", answers=folder / "answers.sqlite") as address:
        predicted, kept = [json.loads(subprocess.check_output(shlex.split(with_colours(line, address)))) for line in lines]
        exec(with_colours(python_of("docs/serve.md", "requests"), address), {})
    assert [image["name"] for image in predicted["images"]] == ["red.jpg"]
    assert [image["name"] for image in predicted["errors"]] == ["beach.png"]
    assert kept == {"kept": 2}
    assert ast.literal_eval(capsys.readouterr().out) == predicted["images"][0]["labels"]

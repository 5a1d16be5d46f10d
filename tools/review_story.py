"""A review from one tag per image to a trusted set and a better model, told by the commands themselves.

    python -m tools.review_story --world demo-run/world --out story --label --recipe demo --train --recipe demo

Draws images with one tag each from a fully labelled set and runs `label`, `audit`, `train` and `rounds` on them, with the options
that follow `--label` and `--train`. Somebody who knows the true labels answers: first the audit, then the grids of the queue,
until the minutes are over. A key or click takes `SECONDS`.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aevlp.cli.main import command
from aevlp.core.seeds import seed_for
from aevlp.data.answers import AnswerStore
from aevlp.data.readers import read
from tools.review_value import Review, answer_audit, by_class, draw, train_scores

SECONDS = 2.0  # an assumption: nobody was timed
LABEL, TRAIN = "--label", "--train"


def give(*words: object) -> None:
    """Show a command and run it."""
    shown = [str(word) for word in words]
    print(f"\n$ aevlp {' '.join(shown)}", flush=True)
    command(shown[0])(shown[1:])


def tell(review: Review, what: str) -> None:
    """Say how good the labels are by now, which only the simulation knows."""
    minutes = review.keys * SECONDS / 60
    print(
        f"\n# {what}: F1 of the labels {review.f1():.3f}; {review.keys} keys and clicks so far, {minutes:.1f} minutes", flush=True
    )


def story(args: argparse.Namespace, label: Sequence[str], train: Sequence[str]) -> None:
    """Run the story."""
    drawn = draw(read(args.world, None), args.seed, args.images, args.tested)
    photos = drawn.write(args.out / "photos")
    review = Review(photos / "labels.csv", AnswerStore(photos / "answers.sqlite"), drawn.truth)
    tell(review, "one tag each")

    def propose(name: str, *options: object) -> Path:
        file: Path = args.out / name
        give("label", photos, "--out", file, *label, *options)
        review.scores = train_scores(read(file, None), review)
        return file

    first = propose("first.jsonl")
    tell(review, "labels proposed")
    answer_audit(review, args.audit, args.seed)
    tell(review, "audit answered")
    give("audit", first, "--answers", review.store.path)
    give("train", photos, "--out", args.out / "first", *train)
    steps = by_class(review, np.random.default_rng(seed_for(args.seed, "story")))
    while review.keys * SECONDS < 60 * args.minutes and next(steps, review) is None:
        pass
    tell(review, "grids answered")
    give("train", photos, "--out", args.out / "second", *train)
    propose("second.jsonl", "--run", args.out / "second", "--folds", "3")
    tell(review, "labels proposed again")
    give("rounds", args.out / "first", args.out / "second", photos, "--split", "test")
    give("rounds", args.out / "first", args.out / "second", photos)  # as a user can; the page is of these images


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    places = [words.index(flag) if flag in words else len(words) for flag in (LABEL, TRAIN)]
    parser = argparse.ArgumentParser(prog="python -m tools.review_story", description=__doc__.partition("\n")[0])
    parser.add_argument("--world", type=Path, required=True, help="a fully labelled image set with the splits train and test")
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--tested", type=int, default=400)
    parser.add_argument("--audit", type=int, default=60, help="images")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(words[: min(places)])
    logging.basicConfig(level=logging.WARNING)
    story(args, words[places[0] + 1 : places[1]], words[places[1] + 1 :])


if __name__ == "__main__":
    main()

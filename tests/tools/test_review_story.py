"""The story of a review runs from one tag per image to the comparison of two models."""

import re

from tools.review_story import main


def test_the_story_runs_to_its_end(world, small, tmp_path, capsys):
    options = [*small, "--observe", "given", "--epochs", "1"]
    words = ["--world", str(world), "--images", "40", "--tested", "16", "--audit", "12", "--minutes", "3", "--out", str(tmp_path)]
    main([*words, "--label", *options, "--train", *options])
    said = capsys.readouterr().out
    told = [(float(f1), int(keys)) for f1, keys in re.findall(r"F1 of the labels ([\d.]+); (\d+) keys", said)]
    assert len(told) == 5
    assert told[0][1] == told[1][1] == 0 < told[2][1] < told[3][1] == told[4][1]
    assert told[3][0] > told[0][0]
    assert "12 of 12 images answered" in said
    assert said.count("fully labelled images.") == 2
    assert (tmp_path / "second" / "rounds.html").is_file()

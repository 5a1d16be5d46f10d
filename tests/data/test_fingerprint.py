import os
from pathlib import Path

from aevlp.data.fingerprint import BLOCK, digests, set_fingerprint

CONTENT = bytes(range(256)) * 64  # 16 KiB


def digest(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "file"
    path.write_bytes(content)
    return digests([path])[0]


def changed(at: int) -> bytes:
    return CONTENT[:at] + b"!" + CONTENT[at + 1 :]


def test_a_digest_sees_size_head_and_tail(tmp_path: Path) -> None:
    seen = [CONTENT, CONTENT + b"\0", changed(0), changed(BLOCK - 1), changed(len(CONTENT) - BLOCK), changed(len(CONTENT) - 1)]
    assert len({digest(tmp_path, content) for content in seen}) == len(seen)
    assert digest(tmp_path, changed(BLOCK)) == digest(tmp_path, CONTENT)  # what makes it cheap


def test_small_files(tmp_path: Path) -> None:
    seen = [b"", b"a", b"aa", b"b" * (BLOCK - 1), b"b" * BLOCK, b"b" * (BLOCK + 1)]
    assert len({digest(tmp_path, content) for content in seen}) == len(seen)


def test_digests_are_in_order_and_do_not_depend_on_the_name(tmp_path: Path) -> None:
    paths = []
    for i in range(20):
        paths.append(tmp_path / f"{i}")
        paths[-1].write_bytes(bytes([i % 10]))
    found = digests(paths, workers=4)
    assert found[:10] == found[10:]
    assert len(set(found)) == 10
    assert found[3] == digests([paths[3]])[0]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert digests([tmp_path / "gone"]) == ["unreadable"]


def test_the_fingerprint_of_a_set_sees_names_contents_and_order() -> None:
    seen = [
        set_fingerprint(names, values)
        for names, values in [
            (["a", "b"], ["1", "2"]),
            (["b", "a"], ["2", "1"]),
            (["a", "b"], ["2", "1"]),
            (["a", "c"], ["1", "2"]),
            (["a"], ["1"]),
            (["a1", "b"], ["", "2"]),
            ([], []),
        ]
    ]
    assert len(set(seen)) == len(seen)
    assert set_fingerprint(["a", "b"], ["1", "2"]) == seen[0]
    assert int(seen[0], 16) >= 0


def test_names_that_are_not_text_have_a_fingerprint() -> None:
    assert set_fingerprint([os.fsdecode(b"\xff.png")], ["1"]) != set_fingerprint([os.fsdecode(b"\xfe.png")], ["1"])

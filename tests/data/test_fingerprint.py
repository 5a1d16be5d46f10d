import os
from pathlib import Path

from aevlp.data.fingerprint import DIGEST, set_fingerprint
from aevlp.data.image_files import digests

CONTENT = bytes(range(256)) * 64  # 16 KiB


def digest(tmp_path: Path, content: bytes) -> bytes:
    path = tmp_path / "file"
    path.write_bytes(content)
    return digests([path])[0]


def test_a_digest_sees_every_byte(tmp_path: Path) -> None:
    changed = [CONTENT[:at] + b"!" + CONTENT[at + 1 :] for at in (0, 4096, len(CONTENT) // 2, len(CONTENT) - 1)]
    seen = [b"", b"a", b"aa", CONTENT, CONTENT + b"\0", *changed]
    assert len({digest(tmp_path, content) for content in seen}) == len(seen)


def test_digests_are_in_order_and_do_not_depend_on_the_name(tmp_path: Path) -> None:
    paths = []
    for i in range(20):
        paths.append(tmp_path / f"{i}")
        paths[-1].write_bytes(bytes([i % 10]))
    found = digests(paths, workers=4)
    assert found.dtype == f"S{DIGEST}"
    assert found[:10].tolist() == found[10:].tolist()
    assert len(set(found)) == 10
    assert found[3] == digests([paths[3]])[0]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert digests([tmp_path / "gone"]).tolist() == [b""]


def test_the_fingerprint_of_a_set_sees_names_contents_and_order() -> None:
    seen = [
        set_fingerprint(names, values)
        for names, values in [
            (["a", "b"], [b"1", b"2"]),
            (["b", "a"], [b"2", b"1"]),
            (["a", "b"], [b"2", b"1"]),
            (["a", "c"], [b"1", b"2"]),
            (["a"], [b"1"]),
            (["a1", "b"], [b"", b"2"]),
            ([], []),
        ]
    ]
    assert len(set(seen)) == len(seen)
    assert set_fingerprint(["a", "b"], [b"1", b"2"]) == seen[0]
    assert int(seen[0], 16) >= 0


def test_names_that_are_not_text_have_a_fingerprint() -> None:
    assert set_fingerprint([os.fsdecode(b"\xff.png")], [b"1"]) != set_fingerprint([os.fsdecode(b"\xfe.png")], [b"1"])

"""Find the image files that a label file names by addresses: paths of another machine, web addresses, paths in a bucket.

An address and a file belong together if they end alike. The longest common end wins; of equally long ones, a file in the folder
of the label file. A file that only has the same name counts where no other address has that name. So the address
`https://host/x/photos/1%20b.jpg` belongs to `photos/1 b.jpg`, unless there is one in `x/photos`.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from aevlp.core.errors import UserError, first_few
from aevlp.core.remote import RemotePath, joined
from aevlp.data.files import folders_in, is_hidden, is_image, missing_files
from aevlp.data.image_files import ARCHIVE, is_image_file

LOCAL_FILES = "/data/local-files/"  # Label Studio serves files of its machine there; the path is in the query
UPLOADED = re.compile(r"(.*/)?upload/\d+/[0-9a-f]{8}-(?P<name>[^/]+)")  # where Label Studio keeps an uploaded file
SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")  # two letters at least: `C:` is a drive
Parts = tuple[str, ...]


@lru_cache(maxsize=1 << 17)  # an address is looked at several times
def spellings(address: str) -> tuple[Parts, ...]:
    """Return the paths that an address may mean, the likeliest first, each as its parts."""
    texts = [address]
    if SCHEME.match(address) or address.startswith(LOCAL_FILES):
        try:
            url = urlsplit(address)
        except ValueError:  # such as an unfinished IPv6 host
            return ()
        inside = parse_qs(url.query, errors="surrogateescape").get("d", []) if url.path == LOCAL_FILES else []
        # A name in a bucket may have a `?` or `#` in it.
        rest = SCHEME.sub("", address).partition("/")[2]
        texts = inside or ([_decoded(url.path), rest] if url.scheme in ("http", "https", "file") else [rest, _decoded(rest)])
    else:
        texts += [address.replace("\\", "/"), _decoded(address)]
    texts += [found["name"] for text in texts if (found := UPLOADED.fullmatch(text))]
    split = (tuple(part for part in text.split("/") if part not in ("", ".")) for text in dict.fromkeys(texts))
    return tuple(parts for parts in split if parts)


def _decoded(text: str) -> str:
    return unquote(text, errors="surrogateescape")


class FileIndex:
    """Files by the last part of their paths. `has_suffixes=False`: addresses may lack the suffix of the file name."""

    def __init__(self, paths: Iterable[Parts] = (), *, has_suffixes: bool = True) -> None:
        self.has_suffixes = has_suffixes
        self._files: defaultdict[str, dict[Parts, None]] = defaultdict(dict)
        for path in paths:
            self.add(path)

    def add(self, path: Parts) -> None:
        """Enter a file by the parts of its path."""
        self._files[path[-1]][path] = None
        if not self.has_suffixes:
            self._files[PurePosixPath(path[-1]).stem][path] = None

    def matches(self, addresses: Iterable[str]) -> dict[str, list[Parts]]:
        """Return the files with the longest common end with each address; several: the address does not tell them apart.

        Where several addresses have one file name, the name alone is not enough. Of several addresses that lead to one file, the
        one with the longest common end has it.
        """
        listed = list(dict.fromkeys(addresses))
        counts = Counter(name for address in listed for name in {parts[-1] for parts in spellings(address)})
        nearest = {address: self._nearest(address, counts) for address in listed}
        longest: dict[Parts, int] = {}
        for length, paths in nearest.values():
            longest |= {path: max(length, longest.get(path, 0)) for path in paths}
        return {address: [path for path in paths if length == longest[path]] for address, (length, paths) in nearest.items()}

    def _nearest(self, address: str, counts: Mapping[str, int]) -> tuple[int, list[Parts]]:
        for parts in spellings(address):
            found = list(self._files.get(parts[-1], ()))
            common = [_common_end(parts[:-1], path[:-1]) for path in found]
            is_enough = max(common, default=0) > 0 or len(parts) == 1 or counts[parts[-1]] == 1
            if found and is_enough:
                return max(common), [path for path, length in zip(found, common, strict=True) if length == max(common)]
        return 0, []


def _common_end(one: Parts, other: Parts) -> int:
    length = 0
    for mine, yours in zip(reversed(one), reversed(other), strict=False):
        if mine != yours:
            break
        length += 1
    return length


def find_images(addresses: Sequence[str], file: Path, *, has_suffixes: bool = True) -> list[str]:
    """Return the path of each image relative to the folder of the label file, with forward slashes.

    An image is where its address says, seen from that folder or its parent, or else in that folder at any depth. If none is
    there, all of them are in one other folder of the parent. `has_suffixes=False`: addresses may lack the suffix of the file
    name. Missing, ambiguous and repeated images are refused.
    """
    folder = file.parent.resolve()  # `..` counts from a link's target, not from the link
    found = {address: [path] for address in addresses if (path := _as_it_says(folder, address)) is not None}
    lost = [address for address in dict.fromkeys(addresses) if address not in found]
    if lost:
        near = _index(folder, lost, has_suffixes)
        for end in _ends_beside(folder, lost):
            near.add(end)
        matches = {address: _chosen(paths) for address, paths in near.matches(lost).items()}
        if not found and not any(matches.values()):
            matches = _in_one_folder_beside(folder, lost, has_suffixes)
        found |= matches
    if missing := [address for address in lost if not found[address]]:
        raise UserError(
            f"{file}: {len(missing)} of {len(addresses)} images are not found ({first_few(missing)}); they are looked for in "
            f"{file.parent} and beside it: move the file to its images, or correct the names"
        )
    if unclear := [address for address in lost if len(found[address]) > 1]:
        files = first_few(sorted(found[unclear[0]]))
        raise UserError(
            f"{file}: {len(unclear)} of {len(addresses)} images may be several files ('{unclear[0]}': {files}); "
            "put more of the path into the names, or move the other files away"
        )
    names = [_shortened(found[address][0], folder) for address in addresses]
    refuse_twice(names, addresses, file)
    return names


def refuse_twice(names: Sequence[object], addresses: Sequence[str], file: Path) -> None:
    """Raise if two addresses of a label file lead to one image."""
    counts = Counter(names)
    if repeated := [address for name, address in zip(names, addresses, strict=True) if counts[name] > 1]:
        raise UserError(f"{file}: several entries are about one image ({first_few(repeated)}); make one entry of them")


def _shortened(path: str, folder: Path) -> str:
    """Return a path relative to a folder without the way out of the folder and back."""
    parts = PurePosixPath(path).parts
    while parts[:2] == ("..", folder.name):
        parts = parts[2:]
    return "/".join(parts)


def _as_it_says(folder: Path, address: str) -> str | None:
    """Return the file that a whole address leads to from a folder or its parent, relative to the folder; None: there is none."""
    if address and is_image_file(folder / address):
        return os.path.relpath(address, folder).replace(os.sep, "/") if PurePath(address).is_absolute() else address
    for parts in spellings(address):
        for start in ((), ("..",)):
            if _is_file(folder, (*start, *parts)):
                return "/".join((*start, *parts))
    return None


def _is_file(folder: Path, parts: Parts) -> bool:
    name = "/".join(parts)
    if isinstance(folder, RemotePath) or ARCHIVE.search(name):
        return is_image_file(folder / name)
    return os.path.isfile(f"{folder}/{name}")  # noqa: PTH113 - much faster than a Path


def _ends_beside(folder: Path, addresses: Iterable[str]) -> Iterator[Parts]:
    """Yield the longest end of each address that is a file of the folder's parent, relative to the folder."""
    for address in addresses:
        for parts in spellings(address):
            ends = (parts[start:] for start in range(1, len(parts)))
            if (end := next((end for end in ends if _is_file(folder.parent, end)), None)) is not None:
                yield ("..", *end)


def _index(folder: Path, addresses: Iterable[str], has_suffixes: bool, start: Parts = ()) -> FileIndex:
    """Return the images below a folder whose names addresses have; `start` is put before their paths."""
    wanted = {parts[-1] for address in addresses for parts in spellings(address)}
    index = FileIndex(has_suffixes=has_suffixes)
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        fitting = [name for name in files if name in wanted or (not has_suffixes and PurePath(name).stem in wanted)]
        inside = PurePath(os.path.relpath(place, folder)).parts if fitting else ()
        for name in fitting:
            if is_image(name):
                index.add((*start, *inside, name))
    return index


def _in_one_folder_beside(folder: Path, addresses: Sequence[str], has_suffixes: bool) -> dict[str, list[str]]:
    """Return the files of each address in the folders beside a folder that have all of them, or else the most."""
    found: list[dict[str, list[str]]] = []
    for other in folders_in(folder.parent):
        if other != folder:
            matches = _index(other, addresses, has_suffixes, ("..", other.name)).matches(addresses)
            found.append({address: _chosen(matches[address]) for address in addresses})
    counts = [sum(map(bool, matches.values())) for matches in found]
    best = [matches for matches, count in zip(found, counts, strict=True) if count == max(counts)]
    return {address: [path for matches in best for path in matches[address]] for address in addresses}


def _chosen(paths: Iterable[Parts]) -> list[str]:
    """Return the paths inside the label file's folder if there are any, or else all of them."""
    listed = list(paths)
    inside = [path for path in listed if path[0] != ".."]
    return ["/".join(path) for path in inside or listed]


def missing_images(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the names, relative to a folder, that are no files; at a remote address, each folder is listed once."""
    if isinstance(folder, RemotePath) and not any(ARCHIVE.search(name) or "://" in name for name in names):
        return missing_files(folder, names)
    start = str(folder)
    # A Path of each would take longer than the look; what is no plain file may be in an archive or at another address.
    is_file = (os.path.isfile(os.path.join(start, name)) for name in names)  # noqa: PTH113, PTH118
    return [
        name for name, is_there in zip(names, is_file, strict=True) if not is_there and not is_image_file(joined(folder, name))
    ]

"""Pages as a browser's parser reads them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from aevlp.reports.run_page import write_report
from aevlp.training.run_folder import RunFolder

VOID = {"meta", "link", "img", "input", "br", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    inside: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.inside)

    def all(self, tag: str = "", **attributes: str) -> list["Element"]:
        """The elements below it of that kind, in order; `class_`: one of its classes."""
        found = []
        for part in self.inside:
            if isinstance(part, Element):
                if part._matches(tag, attributes):
                    found.append(part)
                found += part.all(tag, **attributes)
        return found

    def _matches(self, tag: str, wanted: dict[str, str]) -> bool:
        mine = self.attributes
        return (not tag or self.tag == tag) and all(
            value in mine.get("class", "").split() if key == "class_" else mine.get(key.replace("_", "-")) == value
            for key, value in wanted.items()
        )


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.open[-1].inside.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open[-1].tag == tag, f"</{tag}> within <{self.open[-1].tag}>"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def parsed(text: str) -> Element:
    """The elements of a page; every one must be closed."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [element.tag for element in reader.open] == [""]
    return reader.root


def read(run: RunFolder) -> Element:
    """The report of a run, written again."""
    return parsed(write_report(run).read_text())


def section(page: Element, name: str) -> Element:
    """The section of that id."""
    (found,) = page.all("section", id=name)
    return found


def figures(page: Element) -> dict[str, set[float]]:
    """Key -> every value that the page shows under it."""
    found: dict[str, set[float]] = {}
    for element in page.all("data"):
        if "data-key" in element.attributes:
            found.setdefault(element.attributes["data-key"], set()).add(float(element.attributes["value"]))
    return found

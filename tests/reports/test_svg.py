import re
from xml.etree import ElementTree

import matplotlib

from aevlp.reports import charts
from aevlp.reports.svg import BLUE, INK, render_svg
from tests.reports.made import history


def some(name):
    return charts.metric_per_epoch(name, history(), "loss", 2, label="loss")


def test_charts_take_the_colours_of_the_page():
    text = some("loss")
    assert "var(--blue)" in text
    assert "var(--orange)" in text
    assert "currentColor" in text
    assert re.findall(r"#[0-9a-f]{6}", text.replace("#ffffff", "")) == []
    assert "background" not in text


def test_text_stays_text_and_is_never_markup_or_a_formula():
    def draw(axes):
        axes.set_title("$x^2$ <img src=x onerror=alert(1)> & more", color=INK)
        axes.plot([1, 2], [3, 4], color=BLUE)

    text = render_svg("title", draw)
    assert "$x^2$ &lt;img src=x onerror=alert(1)&gt; &amp; more" in text
    found = [element.text for element in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert "$x^2$ <img src=x onerror=alert(1)> & more" in found


def test_two_charts_of_a_page_share_no_id_and_keep_their_own_references():
    one, two = some("one"), some("two")
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip((one, two), ids, strict=True):
        referred = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
        assert {a or b for a, b in referred} == own


def test_a_chart_is_the_same_every_time_whatever_the_users_style(monkeypatch):
    before = some("loss")
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 30)
    monkeypatch.setitem(matplotlib.rcParams, "svg.hashsalt", None)
    assert some("loss") == before
    assert matplotlib.rcParams["font.size"] == 30  # and is left as it was
    assert "metadata" not in before
    assert "matplotlib" not in before.lower()


def test_a_chart_scales_with_the_page():
    root = ElementTree.fromstring(some("loss"))
    assert root.get("viewBox") == "0 0 374.4 208.8"
    assert "width" not in root.attrib
    assert "height" not in root.attrib

"""Pictures saved from the page stand on their own."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

from pipeline.report.saving import picture
from pipeline.report.svg import Panel
from tests.report.pages import Page, page_of, predictions_of, scan_of

SVG = "{http://www.w3.org/2000/svg}"


def saved(address: str) -> str:
    kind, _, data = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return base64.b64decode(data).decode()


def test_every_figure__can_be_saved_as_a_file_with_its_colours(tmp_path: Path) -> None:
    html = page_of(tmp_path, {"gwas": scan_of(), "predictions": predictions_of()})
    page = Page(html)
    pictures = [saved(address) for address in page.addresses if address.startswith("data:")]
    assert len(pictures) == page.tags.count("figure") > 2
    assert len(html) < 2_000_000
    for text in pictures:
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg"
        rules = root.findtext(f"{SVG}style") or ""
        assert "var(" not in rules
        assert "{{" not in rules
        used = {name for mark in root.iter() for name in mark.get("class", "").split() if re.fullmatch(r"s\d|even|odd|hit", name)}
        assert used
        assert all(f".{name} {{ stroke: #" in rules for name in used)


def test_picture__puts_drawings_below_one_another() -> None:
    panels = [Panel(500, 300, (0, 1), (0, 1)), Panel(500, 48, (0, 1), (0, 1))]
    root = ElementTree.fromstring(saved(picture("".join(panel.bare("x") for panel in panels))))
    assert root.get("viewBox") == "0 0 500 348"
    assert [(inner.get("y"), inner.get("height")) for inner in root.findall(f"{SVG}svg")] == [("0", "300"), ("300", "48")]

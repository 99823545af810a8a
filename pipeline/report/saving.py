"""Pictures that can be saved: a figure of the page as an SVG file of its own, with its colours, as an address that a link carries."""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path

OPENING = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)"[^>]*>')


def picture(svg: str) -> str:
    """The address of a figure (one drawing, or several below one another) as a file: a data URI, so that the page stays one file."""
    sizes, places = [(int(size[1]), int(size[2])) for size in OPENING.finditer(svg)], iter(_tops(svg))
    width, height = max((wide for wide, _ in sizes), default=0), sum(high for _, high in sizes)
    drawn = OPENING.sub(lambda found: f'<svg y="{next(places)}" width="{found[1]}" height="{found[2]}">', svg)
    name = 'xmlns="http://www.w3.org/2000/svg"'
    text = f'<svg {name} viewBox="0 0 {width} {height}" width="{width}" height="{height}"><style>{_style()}</style>{drawn}</svg>'
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()


def _tops(svg: str) -> list[int]:
    """Where each drawing begins, counted from the top."""
    tops = [0]
    for found in OPENING.finditer(svg):
        tops.append(tops[-1] + int(found[2]))
    return tops


@cache
def _style() -> str:
    """The page's rules for figures, in its light colours."""
    text = (Path(__file__).parent / "report.html.j2").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--(\w+): (#\w+)", text[: text.index("@media")]))
    marked = text[text.index("/* figures */") : text.index("/* end of figures */")]
    numbered = re.sub(r"{% for number in range\((\d+)\) %}\s*(.*?)\s*{% endfor %}", _written_out, marked, flags=re.DOTALL)
    plain = re.sub(r"var\(--(\w+)\)", lambda found: colours[found[1]], numbered.removeprefix("/* figures */"))
    return f"svg {{ background: {colours['page']}; }} {' '.join(plain.split())}"


def _written_out(loop: re.Match[str]) -> str:
    return " ".join(loop[2].replace("{{ number }}", str(number)) for number in range(int(loop[1])))

"""PDF files for tests, written by hand: text in the standard fonts, drawn lines, an image, figures, an outline.

They have no logical structure, like those that LaTeX makes. Places are in points from the top left of the page.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 595, 842
_NAMES = {"plain": "Helvetica", "bold": "Helvetica-Bold", "italic": "Helvetica-Oblique", "code": "Courier"}
# Bitmaps, as LaTeX makes them: no names, of letters either, only their widths.
_WIDTHS = {"bitmap": [250 if chr(code) in "ijl,. " else 500 for code in range(256)], "bitmap-code": [525] * 256}
FONTS = {
    **{name: f"<</Type/Font/Subtype/Type1/BaseFont/{font}/Encoding/WinAnsiEncoding>>" for name, font in _NAMES.items()},
    **{
        name: "<</Type/Font/Subtype/Type3/FontBBox[0 0 500 700]/FontMatrix[0.001 0 0 0.001 0 0]/CharProcs<<>>"
        f"/Encoding<</Differences[]>>/FirstChar 0/LastChar 255/Widths{widths}>>".replace(",", "")
        for name, widths in _WIDTHS.items()
    },
}
_RESOURCES = "/Resources<</Font 3 0 R/XObject<</red 4 0 R{}>>>>"


@dataclass
class PdfPage:
    """A page that is being drawn."""

    parts: list[str] = field(default_factory=list)
    rotate: int = 0
    figures: list[PdfPage] = field(default_factory=list)
    width: int = WIDTH

    def text(self, x: float, y: float, text: str, *, size: float = 10, font: str = "plain") -> None:
        """A line of Latin-1 text with its base line at `y`."""
        safe = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        self.parts.append(f"BT /{font} {size} Tf {x} {HEIGHT - y} Td ({safe}) Tj ET")

    def lines(self, x: float, y: float, texts: Sequence[str], *, font: str = "plain", leading: float = 12) -> float:
        """Lines below each other; where the next one would stand."""
        for text in texts:
            self.text(x, y, text, font=font)
            y += leading
        return y

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A drawn line."""
        self.parts.append(f"0.5 w {x0} {HEIGHT - y0} m {x1} {HEIGHT - y1} l S")

    def image(self, x: float, y: float, width: float, height: float) -> None:
        """A red image with its upper left corner there."""
        self.parts.append(f"q {width} 0 0 {height} {x} {HEIGHT - y - height} cm /red Do Q")

    def figure(self, x: float, y: float, page: PdfPage, *, scale: float) -> None:
        """Another page as a figure, with its upper left corner there: a form with coordinates of its own."""
        self.parts.append(f"q {scale} 0 0 {scale} {x} {HEIGHT - y - scale * HEIGHT} cm /figure{len(self.figures)} Do Q")
        self.figures.append(page)


def pdf_of(pages: Sequence[PdfPage], *, outline: Sequence[tuple[str, int]] = (), title: str = "") -> bytes:
    """The file; `outline` names entries and their pages, from 0."""
    fonts = " ".join(f"/{name} {font}" for name, font in FONTS.items())
    red = zlib.compress(b"\xff\0\0" * 64)
    shape = "/Type/XObject/Subtype/Image/Width 8/Height 8/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/FlateDecode"
    objects: list[bytes] = [b"", b"", f"<<{fonts}>>".encode(), _stream(red, shape)]
    kids = []
    for page in pages:
        figures = ""
        for number, figure in enumerate(page.figures):
            entries = f"/Type/XObject/Subtype/Form/BBox[0 0 {WIDTH} {HEIGHT}]"
            objects.append(_stream("\n".join(figure.parts).encode("latin-1"), entries + _RESOURCES.format("")))
            figures += f"/figure{number} {len(objects)} 0 R"
        objects.append(_stream(zlib.compress("\n".join(page.parts).encode("latin-1")), "/Filter/FlateDecode"))
        contents = f"/Contents {len(objects)} 0 R{_RESOURCES.format(figures)}"
        box = f"/MediaBox[0 0 {page.width} {HEIGHT}]" * (page.width != WIDTH) + f"/Rotate {page.rotate}"
        objects.append(f"<</Type/Page/Parent 2 0 R{box}{contents}>>".encode())
        kids.append(len(objects))
    first = len(objects) + 1
    for number, (name, page_number) in enumerate(outline):
        links = f"/Prev {first + number - 1} 0 R" if number else ""
        links += f"/Next {first + number + 1} 0 R" if number + 1 < len(outline) else ""
        parent = first + len(outline)
        objects.append(f"<</Title({name})/Parent {parent} 0 R{links}/Dest[{kids[page_number]} 0 R/Fit]>>".encode())
    if outline:
        last = len(objects)
        objects.append(f"<</Type/Outlines/First {first} 0 R/Last {last} 0 R/Count {len(outline)}>>".encode())
    outlines = f"/Outlines {len(objects)} 0 R" if outline else ""
    objects[0] = f"<</Type/Catalog/Pages 2 0 R{outlines}>>".encode()
    box = f"/MediaBox[0 0 {WIDTH} {HEIGHT}]"  # pages inherit it
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]{box}>>".encode()
    objects.append(f"<</Title({title})>>".encode())
    return _file(objects)


def _stream(data: bytes, entries: str) -> bytes:
    return f"<<{entries}/Length {len(data)}>>stream\n".encode() + data + b"\nendstream"


def _file(objects: Sequence[bytes]) -> bytes:
    """Objects, where they are, and the end."""
    out, places = b"%PDF-1.5\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R/Info {size - 1} 0 R>>\n"
    return out + f"{end}startxref\n{len(out)}\n%%EOF".encode()

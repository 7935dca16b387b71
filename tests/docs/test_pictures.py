"""The README's pictures show what the program prints today; `make pictures` draws them again."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from fakes.chromium import PROGRAM

SITE = Path(__file__).parent.parent.parent / "docs" / "site"


@pytest.fixture
def pictures() -> ModuleType:
    """The module that draws."""
    spec = importlib.util.spec_from_file_location("pictures", SITE / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(svg: Path) -> list[str]:
    """What the picture of a terminal says, as a reader sees it."""
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text(encoding="utf-8"))]


def test_terminals(pictures: ModuleType, tmp_path: Path) -> None:
    """A question and an edit, before and after; an agent's run and its transcript."""
    pictures.main([pictures.draw_documents], tmp_path)
    for name in ("question.svg", "agent.svg"):
        assert words(pictures.PICTURES / name) == words(tmp_path / name)
        assert "font-face" not in (pictures.PICTURES / name).read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_page(pictures: ModuleType, tmp_path: Path) -> None:
    """The picture's description is what the page says today, the recorded answer in it."""
    pictures.main([pictures.draw_page], tmp_path)
    shown, today = (pictures.Image.open(folder / "course.png") for folder in (pictures.PICTURES, tmp_path))
    assert shown.text["Description"] == today.text["Description"]
    assert "leaves contain carotenoids" in shown.text["Description"]
    assert (pictures.PICTURES / "course.png").stat().st_size < 250_000

"""How fast ChatMD is parsed and given back: a made-up transcript, next to an XML parser, and hostile texts."""

from __future__ import annotations

import json
import random
import re
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from benchmarks.measure import Row, best, seconds, show
from chatmd.parser import parse
from chatmd.writer import raw, serialize

TARGET = 40.0  # MB/s
SLOWER = 3.0  # four times the text may take this many times longer per character
_WORDS = re.findall(
    r"[a-z]+", "the a model tool file reads writes calls returns error line value list test function class"
)
# Each piece is repeated; a parser that looks ahead from every one of them takes quadratic time.
HOSTILE = {
    "open tags": "<user>",
    "tags without end": "<doc ",
    "open quotes": "<doc a=\"<doc b='",
    "quotes in quotes": "<doc a=\" b='\" c=' x=\"'",
    "closing tags without end": "</user ",
    "stray closing tags": "</user>",
    "deep agents": "<agent src='a'>",
    "comments without end": "<!-- x ",
    "RAW without end": "RAW| ",
    "empty RAW blocks": "RAW||RAW \n ",
    "RAW behind markup": "<b c <d> \n RAW|x|RAW",
    "voids without slash": "<doc src=a>",
    "end marks": "|RAW",
}


def transcript(size: int = 10_000_000) -> str:
    """A conversation of about `size` characters: questions, reasoning, calls, results of up to 8,000 characters."""
    draw = random.Random(11)
    parts = ['<config model="OpenAI/gpt-4.1" show_tool_call/>\n<tool name="read_file"/>\n<system>Be brief.</system>\n']
    written, number = 0, 0
    while written < size:
        parts.append(_turn(number, draw))
        written += len(parts[-1])
        number += 1
    return "".join(parts)


def _turn(number: int, draw: random.Random) -> str:
    call = f"call_{number:06}"
    arguments = json.dumps({"file": f"src/{_prose(draw, 1)}.py", "offset": number})
    result = "".join(
        f"    if {_prose(draw, 3)} < {_prose(draw, 2)}:  # {_prose(draw, 5)}\n" for _ in range(draw.randint(5, 120))
    )
    return (
        f"\n<user>\n{_prose(draw, 40)} <b>{_prose(draw, 2)}</b>? <!-- {_prose(draw, 3)} -->\n</user>\n"
        f'<reasoning id="rs_{number}">\n<summary>\n{raw(_prose(draw, 60))}</summary></reasoning>\n'
        f'<tool_call tool_call_id="{call}" function_name="read_file" id="fc_{number}">\n{raw(arguments)}</tool_call>\n'
        f'<tool_response tool_call_id="{call}">\n{raw(result)}</tool_response>\n'
        f'<assistant id="msg_{number}">\n{raw(_prose(draw, draw.randint(30, 400)))}</assistant>\n'
    )


def _prose(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(_WORDS, k=words))


def rows() -> list[Row]:
    """Parse and serialize one long transcript; then each hostile text, at two lengths."""
    text = transcript()
    size = len(text.encode()) / 1e6
    ours = size / best(lambda: serialize(parse(text)), 7)
    xml = as_xml(text)
    peer = len(xml.encode()) / 1e6 / best(lambda: ElementTree.fromstring(xml), 3)
    factor, worst = max((growth(piece), name) for name, piece in HOSTILE.items())
    strict, worst_strict = max((growth(piece, strict=True), name) for name, piece in HOSTILE.items())
    return [
        Row(
            f"parse and serialize a ChatMD transcript of {size:.0f} MB",
            f"xml.etree (in C, the same as XML, parse only) {peer:.0f} MB/s",
            f"{ours:.0f} MB/s",
            f"{ours / peer:.1f} ×",
            f"≥ {TARGET:g} MB/s",
            ours >= TARGET,
        ),
        Row(
            f"parse {len(HOSTILE)} hostile texts of 250 kB and 1 MB",
            "",
            f"{seconds(slowest())} per MB for the slowest; {factor:.1f} times longer per character at 1 MB ({worst}), "
            f"strict {strict:.1f} ({worst_strict})",
            "",
            f"≤ {SLOWER:g} times longer",
            max(factor, strict) <= SLOWER,
        ),
    ]


def as_xml(text: str) -> str:
    """The transcript's size and shape as well-formed XML: its elements with all text escaped."""
    from chatmd.nodes import Element, Node, Text

    def write(node: Node) -> str:
        if isinstance(node, Text):
            return escape(node.value)
        if isinstance(node, Element):
            attributes = "".join(f' {name}="{value or ""}"' for name, value in node.attributes)
            return f"<{node.tag}{attributes}>{''.join(map(write, node.children))}</{node.tag}>"
        return f"<!--{node.value}-->"

    return f"<document>{''.join(map(write, parse(text).children))}</document>"


def hostile(piece: str, size: int) -> str:
    """`piece` again and again, and one ``>`` in a quote at the very end, so that tags may hope for an end."""
    return piece * (size // len(piece)) + ' a=">"'


def growth(piece: str, *, strict: bool = False) -> float:
    """How many times longer a character takes in 1 MB of `piece` than in 250 kB: 1 if time is linear."""
    small, large = hostile(piece, 250_000), hostile(piece, 1_000_000)
    return best(lambda: parse(large, strict=strict), 1) / best(lambda: parse(small, strict=strict), 3) / 4


def slowest() -> float:
    """Seconds for 1 MB of the hostile text that takes longest."""
    return max(best(lambda: parse(hostile(piece, 1_000_000)), 1, warm_up=0) for piece in HOSTILE.values())


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()

"""How fast ChatMD is parsed and given back: a made-up transcript, next to an XML parser, and hostile texts."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from benchmarks.measure import Row, best, seconds, show
from chatmd.language.lint import check
from chatmd.language.nodes import Comment, Node, Text
from chatmd.language.syntax import parse, raw, serialize

TARGET = 40.0  # MB/s
LONGER = 3.0  # a character of a text four times as long may take so many times longer: caches, and busy machines
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
    "unknown attributes": "<user x>",
    "tools": "<tool name=a/>",
    "calls": "<tool_call tool_call_id=a function_name=f>{}</tool_call>",
    "one tag of attributes": " a='x'",
    "misspelt tags": "<User>a</User><!---->",
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
    """One long transcript, parsed and given back; then each hostile text, at two lengths."""
    return [transcript_row(), hostile_row()]


def transcript_row() -> Row:
    """Megabytes of UTF-8 per second; the peer is a parser in C, of the same content as XML."""
    text = transcript()
    ours = megabytes(text) / best(lambda: serialize(parse(text)), 7)
    xml = as_xml(text)
    peer = megabytes(xml) / best(lambda: ElementTree.fromstring(xml), 3)
    return Row(
        f"parse and serialize a ChatMD transcript of {megabytes(text):.0f} MB",
        f"xml.etree (in C, the same as XML, parse only) {peer:.0f} MB/s",
        f"{ours:.0f} MB/s",
        f"{ours / peer:.1f} ×",
        f"≥ {TARGET:g} MB/s",
        ours >= TARGET,
    )


def hostile_row() -> Row:
    """How much longer a character takes in 1 MB than in 250 kB, in the worst case: 1 if time is linear."""
    worst, slowest = (0.0, ""), (0.0, "")
    for name, piece in HOSTILE.items():
        small = best(partial(checked, hostile(piece, 250_000)), 3)
        large = best(partial(checked, hostile(piece, 1_000_000)), 2, warm_up=0)
        worst, slowest = max(worst, (large / small / 4, name)), max(slowest, (large, name))
    return Row(
        f"parse and check {len(HOSTILE)} hostile texts of 1 MB, per character next to 250 kB",
        "",
        f"{worst[0]:.1f} × at worst ({worst[1]}); at most {seconds(slowest[0])} ({slowest[1]})",
        "",
        f"≤ {LONGER:g} ×",
        worst[0] <= LONGER,
    )


def checked(text: str) -> None:
    document = parse(text)
    check(document)


def megabytes(text: str) -> float:
    """The size of a text on disk."""
    return len(text.encode()) / 1e6


def hostile(piece: str, size: int) -> str:
    """`piece` again and again, and one ``>`` in a quote at the very end, so that tags may hope for an end."""
    text = piece * (size // len(piece)) + ' a=">"'
    return f"<doc{text}>" if piece.startswith(" ") else text


def as_xml(text: str) -> str:
    """A transcript as well-formed XML: its elements, with all text escaped."""
    return f"<document>{''.join(map(_xml, parse(text).children))}</document>"


def _xml(node: Node) -> str:
    if isinstance(node, Text):
        return escape(node.value)
    if isinstance(node, Comment):
        return f"<!--{node.value}-->"
    attributes = "".join(f' {name}="{value or ""}"' for name, value in node.attributes)
    return f"<{node.tag}{attributes}>{''.join(map(_xml, node.children))}</{node.tag}>"


def main() -> None:
    """Measure and print."""
    show(rows())


if __name__ == "__main__":
    main()

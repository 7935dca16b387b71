"""Find the JSON in what a model replied: bare, in a code fence, or with text around it."""

from __future__ import annotations

import json
import re
from typing import Any

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+)[^\n`]*\n(?P<code>(?:(?![ \t]*(?P=fence)).*\n)*)[ \t]*(?P=fence)[ \t]*\r?$",
    re.MULTILINE,
)
# Where an object or array may begin; ' and words are what models write that take JSON for Python or JavaScript.
_OPENING = re.compile(r"""\{\s*(?:["'}]|\w+\s*:)|\[\s*["'\[{\]\-\dtfn]""")
_MOST_BROKEN = 1000  # a reply with more of these has no JSON worth the search, each taking time with its length


class NoJson(ValueError):
    """There is no JSON in a reply; the message says where it breaks, in words for a model."""


def read_json(reply: str) -> list[Any]:
    """The JSON values in a reply, the likeliest first: the whole reply or code fences, else objects and arrays.

    What stands inside a value, or inside JSON that breaks off, is not a value of its own.

    Raises:
        NoJson: there is none.

    >>> read_json('Here it is: {"name": "Oak"}. Anything else?')
    [{'name': 'Oak'}]
    """
    text = _THOUGHTS.sub("", reply)
    whole = [text, *(match["code"] for match in _FENCED.finditer(text))]
    if values := [value for piece in whole for value in _parsed(piece.strip())]:
        return values
    values, reason = _embedded(text)
    if not values:
        raise NoJson(reason)
    return values


def _parsed(text: str) -> list[Any]:
    """The value that `text` is, if it is JSON and nothing else."""
    try:
        return [_checked(json.loads(text))]
    except (ValueError, RecursionError):
        return []


def _embedded(text: str) -> tuple[list[Any], str]:
    """The objects and arrays in a text, outermost, in order; and why the first that is not one is none."""
    decoder, at, values, reasons = json.JSONDecoder(), 0, list[Any](), list[str]()
    while (opening := _OPENING.search(text, at)) and len(reasons) < _MOST_BROKEN:
        try:
            value, at = decoder.raw_decode(text, opening.start())
            values.append(_checked(value))
        except json.JSONDecodeError as error:
            at = max(error.pos, opening.start() + 1)  # up to there it was JSON: its inside is not looked at
            reasons.append(f"the JSON breaks at line {error.lineno}, column {error.colno}: {error.msg}")
        except ValueError as error:
            at = max(at, opening.start() + 1)
            reasons.append(f"the JSON has a value that is not allowed: {error}")
        except RecursionError:
            reasons.append("the JSON is nested too deep")
            break
    return values, (reasons or ["there is no JSON in it"])[0]


def _checked(value: Any) -> Any:
    """`value`, unless it holds what Python's reader allows and JSON or UTF-8 do not: NaN, half a character."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    return value

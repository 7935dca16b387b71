"""Values of a sheet as the sheet shows them: applying the number formats of Excel (ECMA-376, part 1, 18.8.31).

Names of months and the decimal point are English. Dates in the system's own format, which differs from one computer to
the next, are written as ISO 8601 has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import takewhile

Value = bool | int | float | str | datetime | date | time | timedelta
_Token = tuple[str, str]  # kind, text

_TOKENS = re.compile(
    r"""(?P<quoted>"[^"]*"?)|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)
    |\[(?P<elapsed>h+|m+|s+)\]|\[\$(?P<currency>[^\]-]*)-?(?P<locale>[^\]]*)\]|(?P<bracket>\[[^\]]*\])
    |(?P<ampm>am/pm|a/p)|(?P<general>general)|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?)|(?P<exponent>e[+-])
    |(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<slash>/(?:[1-9]\d*)?)|(?P<percent>%)|(?P<text>@)|(?P<literal>.)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_ENGLISH = re.compile(r"(?:[0-9a-f]*09|en(?:-.*)?)?", re.IGNORECASE)  # language identifiers of English end in 09
# The system's own formats: numbers 14 and 22, long date, time.
_SYSTEM = re.compile(r"mm-dd-yy|(?P<both>m/d/yy h:mm)|\[\$-F800\].*|(?P<time>\[\$-F400\].*)", re.IGNORECASE)
_PRECISE, _LARGEST = Context(prec=100), 1e30
_DIGITS = ("digit", "point", "comma", "exponent", "slash")


def shown(value: Value, code: str) -> str | None:
    """Return a cell's value as its number format `code` shows it, or None if the format is not understood.

    >>> shown(0.85, "0%"), shown(1234.5, '#,##0.00 "EUR"'), shown(-3, "0;[Red](0)"), shown(7, "000")
    ('85%', '1,234.50 EUR', '(3)', '007')
    >>> shown(0.00012345, "0.00E+00"), shown(12345, "##0.0E+0"), shown(99999, "0.0E+0")
    ('1.23E-04', '12.3E+3', '1.0E+5')
    >>> shown(datetime(2026, 2, 9, 14, 30), "dd/mm/yyyy hh:mm"), shown(timedelta(hours=30), "[h]:mm")
    ('09/02/2026 14:30', '30:00')
    """
    if isinstance(value, bool):
        return str(value).upper()
    sections = _sections(code)
    if sections is None:
        return None
    if isinstance(value, str):
        tokens = sections[3] if len(sections) > 3 else next((each for each in sections if ("text", "@") in each), None)
        return value if tokens is None else "".join(value if kind == "text" else text for kind, text in tokens)
    if isinstance(value, datetime | date | time | timedelta):
        return _date(value, sections[0], code)
    return _number(value, sections)


def stored(value: Value) -> str:
    """Return a value as a sheet without number formats shows it; dates as in ISO 8601.

    >>> stored(12345678.0), stored(0.1 + 0.2), stored(1e-07), stored(datetime(2026, 2, 9))
    ('12345678', '0.3', '1E-07', '2026-02-09')
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        written = value.isoformat(" ", "auto" if value.second else "minutes")
        return written.removesuffix(" 00:00")
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{'-' * (seconds < 0)}{abs(seconds) // 3600}:{abs(seconds) // 60 % 60:02}:{abs(seconds) % 60:02}"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.10G}"
    return str(value)


def _sections(code: str) -> list[list[_Token]] | None:
    """Return the tokens of each section of a format, or None if one has a condition or a token that is unknown."""
    if len(code) > 255:  # the most that Excel takes
        return None
    found: list[list[_Token]] = [[]]
    for match in _TOKENS.finditer(code):
        kind, text = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "literal" and text == ";":
            found.append([])
        elif kind == "quoted":
            found[-1] += [("literal", text.strip('"'))] * (text.strip('"') != "")
        elif kind in ("escaped", "literal"):
            found[-1].append(("literal", text))
        elif kind == "space":
            found[-1].append(("literal", " "))
        elif kind == "locale":  # the last group of [$€-407]
            found[-1] += [("literal", match["currency"])] * bool(match["currency"]) + [("locale", text)] * bool(text)
        elif kind == "bracket" and re.match(r"\[[<>=]|\[DBNum", text, re.IGNORECASE):
            return None
        elif kind not in ("fill", "bracket"):
            found[-1].append((kind, text))
    return found if len(found) <= 4 else None


# -- numbers ---------------------------------------------------------------------------------------------


def _number(value: float, sections: Sequence[list[_Token]]) -> str | None:
    """Format a number by the section for positive numbers, negative ones or zero."""
    which = 0
    if value < 0 and len(sections) > 1:
        which, value = 1, -value
    elif value == 0 and len(sections) > 2:
        which = 2
    tokens = sections[which]
    if any(kind in ("date", "elapsed", "ampm") for kind, _ in tokens) or not abs(value) < _LARGEST or len(tokens) > 50:
        return None  # a number that is no date, or out of all proportion
    kinds = [kind for kind, _ in tokens]
    if "general" in kinds or "text" in kinds:
        return "".join(stored(value) if kind in ("general", "text") else text for kind, text in _literals(tokens))
    if "digit" not in kinds:
        return "".join(text for _, text in _literals(tokens))
    number = Decimal(repr(value)) * 100 ** kinds.count("percent")
    places = [i for i, kind in enumerate(kinds) if kind in _DIGITS]
    first, last = places[0], places[-1]
    before, after = _literals(tokens[:first]), _literals(tokens[last + 1 :])
    written = _digits(number, tokens[first : last + 1])
    if written is None:
        return None
    sign = "-" if written.startswith("-") else ""
    return f"{sign}{''.join(text for _, text in before)}{written.removeprefix('-')}{''.join(text for _, text in after)}"


def _literals(tokens: Sequence[_Token]) -> list[_Token]:
    return [token for token in tokens if token[0] != "locale"]


def _digits(number: Decimal, tokens: Sequence[_Token]) -> str | None:
    """Format a number by the part of a section from its first to its last digit."""
    kinds = [kind for kind, _ in tokens]
    if not {"slash", "literal"}.isdisjoint(kinds):  # fractions, telephone numbers
        return None
    if "exponent" in kinds:
        return _power(number, tokens, kinds.index("exponent"))
    point = kinds.index("point") if "point" in kinds else len(kinds)
    whole, decimals = tokens[:point], [token for token in tokens[point + 1 :] if token[0] == "digit"]
    scaling = re.search(r",*\Z", "".join(text for _, text in tokens))
    number /= 1000 ** len(scaling[0] if scaling else "")  # commas after the last digit
    while whole and whole[-1][0] == "comma":
        whole = whole[:-1]
    exact = number.quantize(Decimal(1).scaleb(-len(decimals)), rounding=ROUND_HALF_UP, context=_PRECISE)
    integer, _, rest = f"{abs(exact):f}".partition(".")
    least = sum(text == "0" for kind, text in whole if kind == "digit")
    integer = integer.lstrip("0").rjust(least, "0")
    if any(kind == "comma" for kind, _ in whole):
        integer = re.sub(r"(?<=\d)(?=(?:\d{3})+\Z)", ",", integer)
    optional = len(decimals)
    while optional and decimals[optional - 1][1] != "0" and rest.endswith("0"):
        optional, rest = optional - 1, rest[:-1]
    sign = "-" if exact < 0 else ""
    return f"{sign}{integer}{'.' if 'point' in kinds else ''}{rest}"


def _power(number: Decimal, tokens: Sequence[_Token], at: int) -> str | None:
    """Format a number as a power of ten; the exponent is a multiple of the number of digits before the point."""
    mantissa, exponent = tokens[:at], tokens[at + 1 :]
    step = sum(kind == "digit" for kind, _ in takewhile(lambda token: token[0] != "point", mantissa))
    if not step or any(kind != "digit" for kind, _ in exponent):
        return None
    power = number.adjusted() // step * step if number else 0
    written = _digits(number.scaleb(-power), mantissa)
    if written and abs(Decimal(written)) >= 10**step:  # rounded up
        power += step
        written = _digits(number.scaleb(-power), mantissa)
    sign = "-" if power < 0 else "+" * (tokens[at][1][-1] == "+")
    return written and f"{written}E{sign}{abs(power):0{sum(text == '0' for _, text in exponent)}}"


# -- dates -----------------------------------------------------------------------------------------------


def _date(value: datetime | date | time | timedelta, tokens: Sequence[_Token], code: str) -> str | None:
    """Format a date, a time or a duration."""
    if (own := _SYSTEM.fullmatch(code)) is not None and isinstance(value, datetime):
        return stored(value if own["both"] else value.time() if own["time"] else value.date())
    locale = next((text for kind, text in tokens if kind == "locale"), "")
    if isinstance(value, datetime) and value.year < 9999:
        value += timedelta(microseconds=100)  # what was computed may be a little less than it shows
    is_named = any(kind == "date" and text[0] in "mMdD" and len(text) > 2 for kind, text in tokens)
    has_parts = any(kind in ("date", "elapsed") for kind, _ in tokens)
    has_eras = any(kind in ("literal", "exponent") and text[0] in "aAbBeEgG" for kind, text in tokens)
    if not has_parts or has_eras or (is_named and not _ENGLISH.fullmatch(locale)):
        return None
    if isinstance(value, timedelta) and not any(kind == "elapsed" for kind, _ in tokens):
        value = (datetime(1, 1, 1) + value).time() if timedelta() <= value < timedelta(1) else value
    return "".join(_date_parts(value, list(tokens)))


def _date_parts(value: datetime | date | time | timedelta, tokens: Sequence[_Token]) -> Iterator[str]:
    seconds = value.total_seconds() if isinstance(value, timedelta) else _seconds(value)
    decimals = max((len(text.partition(".")[2]) for kind, text in tokens if kind == "date"), default=0)
    seconds = round(seconds, decimals) if decimals else float(int(seconds + (1e-4 if seconds > 0 else -1e-4)))
    if seconds < 0:
        yield "-"
        seconds = -seconds
    is_half = any(kind == "ampm" for kind, _ in tokens)
    before = ""
    for i, (kind, text) in enumerate(tokens):
        unit = text[0].lower()
        following = next((t for k, t in tokens[i + 1 :] if k in ("date", "elapsed")), "")
        if kind == "elapsed":
            yield str(int(seconds // {"h": 3600, "m": 60, "s": 1}[unit])).rjust(len(text), "0")
        elif kind == "ampm":
            yield ("AM" if seconds % 86400 < 43200 else "PM")[
                : 1 if text[-2:].lower() == "/p" and len(text) == 3 else 2
            ]
        elif kind == "date" and unit == "m" and len(text) < 3 and (before == "h" or following[:1].lower() == "s"):
            yield f"{int(seconds // 60) % 60:0{len(text)}}"
        elif kind == "date" and unit in "hs.":
            yield _clock(unit, text, seconds, is_half)
        elif kind == "date":
            yield _calendar(unit, len(text), value)
        elif kind != "locale":
            yield text
        before = unit if kind in ("date", "elapsed") else before


def _seconds(value: datetime | date | time) -> float:
    if isinstance(value, datetime | time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return 0.0


def _clock(unit: str, text: str, seconds: float, is_half: bool) -> str:
    width, _, decimals = text.partition(".")
    if unit == "h":
        hour = int(seconds // 3600) % 24
        return f"{(hour + 11) % 12 + 1 if is_half else hour:0{len(text)}}"
    part = f"{seconds % 1:.{len(decimals)}f}"[1:] if decimals else ""
    return (f"{int(seconds) % 60:0{len(width)}}" if width else "") + part


def _calendar(unit: str, width: int, value: datetime | date | time | timedelta) -> str:
    day = value if isinstance(value, date) else date(1899, 12, 31)
    if unit == "y":
        return f"{day:%y}" if width < 3 else str(day.year)
    number = day.month if unit == "m" else day.day
    names = "%b %B %b" if unit == "m" else "%a %A"
    if width < 3:
        return f"{number:0{width}}"
    name = format(day, names.split()[min(width - 3, 1)])
    return name[0] if width == 5 and unit == "m" else name

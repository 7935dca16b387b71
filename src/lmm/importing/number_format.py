"""Values of a sheet as the sheet shows them: applying the number formats of Excel (ECMA-376, part 1, 18.8.31).

Names of months and the decimal point are English, unless the format names one of the `_LANGUAGES`. Dates in the
system's own format, which differs from one computer to the next, are written as ISO 8601 has them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile

Value = bool | int | float | str | datetime | date | time | timedelta
_Token = tuple[str, str]  # kind, text
_Condition = tuple[str, float]

_TOKENS = re.compile(
    r"""(?P<quoted>"[^"]*"?)|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)
    |\[(?P<elapsed>h+|m+|s+)\]|\[\$(?P<currency>[^\]-]*)-?(?P<locale>[^\]]*)\]
    |\[(?P<operator><=|>=|<>|<|>|=)(?P<condition>-?\d+(?:\.\d*)?)\]|(?P<bracket>\[[^\]]*\])
    |(?P<ampm>am/pm|a/p)|(?P<general>general)|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?)|(?P<exponent>e[+-])
    |(?P<digit>[0#?])|(?P<point>\.)|(?P<comma>,)|(?P<slash>/(?:[1-9]\d*)?)|(?P<percent>%)|(?P<text>@)|(?P<literal>.)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
              "<>": operator.ne}  # fmt: skip
# The conditions of two and of three sections, if the format has no others.
_USUAL: dict[int, list[_Condition]] = {2: [(">=", 0.0)], 3: [(">", 0.0), ("<", 0.0)]}
# The system's own formats: numbers 14 and 22, long date, time.
_SYSTEM = re.compile(r"mm-dd-yy|(?P<both>m/d/yy h:mm)|\[\$-F800\].*|(?P<time>\[\$-F400\].*)", re.IGNORECASE)
_PRECISE, _LARGEST = Context(prec=100), 1e30
_LANGUAGES = {"09": "en", "07": "de", "0a": "es", "0c": "fr", "10": "it", "13": "nl", "16": "pt"}
_CONTINENTAL = re.compile(r"0*[4c](?:07|0a|0c|10|13|16)", re.IGNORECASE)  # with a decimal comma
_NAMES = {
    "en": "January February March April May June July August September October November December "
          "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember "
          "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre "
          "lunes martes miércoles jueves viernes sábado domingo",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre "
          "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre "
          "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december "
          "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro "
          "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
}  # fmt: skip


@dataclass(slots=True)
class _Section:
    """A part of a format, between semicolons."""

    tokens: list[_Token] = field(default_factory=list)
    condition: _Condition | None = None
    locale: str = ""

    @property
    def language(self) -> str:
        """The language of its locale, which is a number or a tag; English by default."""
        tag = self.locale.partition("-")[0].lower()
        return _LANGUAGES.get(tag[-2:], "") if tag.isalnum() and not tag.isalpha() else tag or "en"


def shown(value: Value, code: str) -> str | None:
    """Return a cell's value as its number format `code` shows it, or None if the format is not understood.

    >>> shown(0.85, "0%"), shown(1234.5, '#,##0.00 "EUR"'), shown(-3, "0;[Red](0)"), shown(7, "000")
    ('85%', '1,234.50 EUR', '(3)', '007')
    >>> shown(0.00012345, "0.00E+00"), shown(1500, '[>=1000]0.0,"k";0'), shown(2.75, "# ?/?")
    ('1.23E-04', '1.5k', '2 3/4')
    >>> shown(datetime(2026, 2, 9, 14, 30), "dd/mm/yyyy hh:mm"), shown(timedelta(hours=30), "[h]:mm")
    ('09/02/2026 14:30', '30:00')
    """
    if isinstance(value, bool):
        return str(value).upper()
    sections = _sections(code)
    if sections is None:
        return None
    if isinstance(value, str):
        for_text = [section for section in sections[:3] if ("text", "@") in section.tokens]
        section = next(iter([*sections[3:], *for_text]), _Section([("text", "@")]))
        return "".join(value if kind == "text" else text for kind, text in section.tokens)
    if isinstance(value, datetime | date | time | timedelta):
        return _date(value, sections[0], code)
    return _number(value, [each for each in sections if ("text", "@") not in each.tokens][:3] or sections[:1])


def stored(value: Value) -> str:
    """Return a value as a sheet without number formats shows it; dates as in ISO 8601.

    >>> stored(12345678.0), stored(0.1 + 0.2), stored(1e-07), stored(datetime(2026, 2, 9))
    ('12345678', '0.3', '1E-07', '2026-02-09')
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        written = value.isoformat(" ", "seconds" if value.second else "minutes")
        return written.removesuffix(" 00:00")
    if isinstance(value, time):
        return value.isoformat("seconds")
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{'-' * (seconds < 0)}{abs(seconds) // 3600}:{abs(seconds) // 60 % 60:02}:{abs(seconds) % 60:02}"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.10G}"
    return str(value)


_LONGEST = 255  # characters, in Excel


@lru_cache(maxsize=256)  # a column has one format
def _sections(code: str) -> list[_Section] | None:
    """Return the sections of a format, or None if one has a token that is unknown, or it is too long for Excel."""
    if len(code) > _LONGEST:
        return None
    found = [_Section()]
    for match in _TOKENS.finditer(code):
        kind, text = match.lastgroup or "", match[match.lastgroup or 0]
        section = found[-1]
        if kind == "literal" and text == ";":
            found.append(_Section())
        elif kind == "literal" and text.isascii() and text.isalpha():
            section.tokens.append(("letter", text))
        elif kind == "bracket" and text[1] in "<>=D":  # [DBNum1]: digits of Chinese
            return None
        elif kind == "condition":
            section.condition = match["operator"], float(text)
        elif kind == "locale":  # the last group of [$€-407]
            section.tokens += [("literal", match["currency"])] * bool(match["currency"])
            section.locale = "" if match["currency"] else text
        elif kind in ("quoted", "escaped", "literal", "space"):
            section.tokens.append(
                ("literal", " " if kind == "space" else text.strip('"') if kind == "quoted" else text)
            )
        elif kind not in ("fill", "bracket"):
            section.tokens.append((kind, text))
    is_sound = len(found) <= 4 and all(len(section.tokens) <= 50 for section in found)
    return found if is_sound else None


# -- numbers ---------------------------------------------------------------------------------------------


def _number(value: float, sections: Sequence[_Section]) -> str | None:
    """Format a number by the first section whose condition holds. Where it holds for negative numbers only, these are
    shown without a sign."""
    usual = _USUAL.get(len(sections), [])
    conditions = [each.condition or (usual[i] if i < len(usual) else None) for i, each in enumerate(sections)]
    fits = (each is None or _OPERATORS[each[0]](value, each[1]) for each in conditions)
    which = next((i for i, is_fitting in enumerate(fits) if is_fitting), None)
    if which is None or not abs(value) < _LARGEST:
        return None
    section, condition = sections[which], conditions[which]
    kinds = [kind for kind, _ in section.tokens]
    if not {"date", "elapsed", "ampm"}.isdisjoint(kinds) or ("letter" in kinds and "digit" not in kinds):
        return None  # a number that is no date
    is_negative = conditions == [(">=", 0.0), None] if condition is None else (
        condition[0] in ("<", "<=") and (condition[1] < 0 or condition == ("<", 0.0)))  # fmt: skip
    value = abs(value) if is_negative else value
    if "general" in kinds or "digit" not in kinds:
        return "".join(stored(value) if kind in ("general", "text") else text for kind, text in section.tokens)
    if "letter" in kinds[kinds.index("digit") : -kinds[::-1].index("digit") or None]:
        return None
    number = abs(Decimal(repr(value))) * 100 ** kinds.count("percent")
    marks = (".\u00a0"[section.language == "fr"], ",") if _CONTINENTAL.fullmatch(section.locale) else (",", ".")
    if "slash" in kinds:
        written = _fraction(number, section.tokens)
    elif "exponent" in kinds:
        written = _power(number, section.tokens, kinds.index("exponent"), marks)
    else:
        written = _places(number, section.tokens, marks)
    return written and ("-" * bool(value < 0 and re.search("[1-9]", written)) + written)


def _count(tokens: Sequence[_Token]) -> int:
    return sum(kind == "digit" for kind, _ in tokens)


def _places(number: Decimal, tokens: Sequence[_Token], marks: tuple[str, str] = (",", ".")) -> str:
    """Put the digits of a number in the places that a section has for them; `marks` divide thousands and decimals."""
    point = next((i for i, (kind, _) in enumerate(tokens) if kind == "point"), len(tokens))
    whole, rest = tokens[:point], tokens[point + 1 :]
    commas = [_count(part[i:]) for part in (whole, rest) for i, (kind, _) in enumerate(part) if kind == "comma"]
    scaled = number.scaleb(-3 * commas.count(0), _PRECISE)  # commas after the last digit
    is_grouped = any(kind == "comma" and _count(whole[i:]) for i, (kind, _) in enumerate(whole))
    exact = scaled.quantize(Decimal(1).scaleb(-_count(rest)), rounding=ROUND_HALF_UP, context=_PRECISE)
    integer, _, decimals = f"{exact:f}".partition(".")
    left, written, width = integer.lstrip("0"), list[str](), 0
    places = _count(whole)
    for kind, text in reversed(whole if places else [*whole, ("digit", "#")]):
        if kind == "digit":
            places -= 1
            digits = left[-1:] if places > 0 else left  # the first place takes all that is left
            left = left[: len(left) - len(digits)]
            for digit in reversed(digits or text.strip("#?")):
                written += [marks[0]] * (is_grouped and width % 3 == 0 and width > 0) + [digit]
                width += 1
        elif kind != "comma":
            written.append(text)
    optional = "".join(text for kind, text in rest if kind == "digit")
    kept = max(len(optional.rstrip("#?")), len(decimals.rstrip("0")))
    shown = "".join(reversed(written)) + marks[1] * (kept > 0)
    decimal = iter(decimals[:kept])
    return shown + "".join(next(decimal, "") if kind == "digit" else text for kind, text in rest if kind != "comma")


def _power(number: Decimal, tokens: Sequence[_Token], at: int, marks: tuple[str, str]) -> str | None:
    """Format a number as a power of ten; the exponent is a multiple of the number of digits before the point."""
    mantissa, after = tokens[:at], tokens[at + 1 :]
    step = _count([*takewhile(lambda token: token[0] != "point", mantissa)])
    places = [text for _, text in takewhile(lambda token: token[0] == "digit", after)]
    if not step or not places:
        return None
    power = number.adjusted() // step * step if number else 0
    half = Decimal(5).scaleb(-1 - (_count(mantissa) - step))
    power += step if number.scaleb(-power) + half >= 10**step else 0  # rounded up
    sign = "-" if power < 0 else "+" * (tokens[at][1][-1] == "+")
    exponent = f"{abs(power):0{places.count('0')}}"
    rest = "".join(text for _, text in after[len(places) :])
    return f"{_places(number.scaleb(-power), mantissa, marks)}E{sign}{exponent}{rest}"


def _fraction(number: Decimal, tokens: Sequence[_Token]) -> str | None:
    """Format a number as a fraction: with the denominator of the format, or the best with as many digits."""
    kinds = "".join({"digit": "d", "slash": "/"}.get(kind, "x") for kind, _ in tokens)
    parts = re.search(r"(?:(?P<whole>d+)x+)?(?P<above>d+)/(?P<below>d*)", kinds)
    fixed = tokens[kinds.index("/")][1][1:]
    if parts is None or not (parts["below"] or fixed):
        return None
    exact = Fraction(number)
    whole = int(exact) if parts["whole"] else 0
    above, below = int((exact - whole) * int(fixed or 1) + Fraction(1, 2)), int(fixed or 1)
    if not fixed:
        above, below = (exact - whole).limit_denominator(10 ** len(parts["below"]) - 1).as_integer_ratio()
    if parts["whole"] and above == below:
        whole, above = whole + 1, 0
    is_shown = above or not parts["whole"] or tokens[parts.start("above")][1] == "0"
    has_whole = whole or not is_shown or (parts["whole"] and tokens[parts.end("whole") - 1][1] == "0")
    written = " ".join([str(whole)] * bool(has_whole) + [f"{above}/{below}"] * bool(is_shown))
    before, after = ("".join(text for _, text in part) for part in (tokens[: parts.start()], tokens[parts.end() :]))
    return f"{before}{written}{after}"


# -- dates -----------------------------------------------------------------------------------------------


def _date(value: datetime | date | time | timedelta, section: _Section, code: str) -> str | None:
    """Format a date, a time or a duration."""
    if (own := _SYSTEM.fullmatch(code)) is not None and isinstance(value, datetime):
        return stored(value if own["both"] else value.time() if own["time"] else value.date())
    if isinstance(value, datetime) and value.year < 9999:
        value += timedelta(microseconds=100)  # what was computed may be a little less than it shows
    kinds, parts = {kind for kind, _ in section.tokens}, [text for kind, text in section.tokens if kind == "date"]
    named = [text for text in parts if text[0] in "mMdD" and len(text) > 2]
    is_short = any(len(text) == 3 for text in named)
    has_names = section.language in _NAMES and not (is_short and section.language in ("fr", "nl"))
    if not kinds & {"date", "elapsed"} or kinds & {"exponent", "letter"} or (named and not has_names):
        return None  # eras, quarters, names in another language
    if isinstance(value, timedelta) and "elapsed" not in kinds:
        value = (datetime(1, 1, 1) + value).time() if timedelta() <= value < timedelta(1) else value
    return "".join(_date_parts(value, section))


def _date_parts(value: datetime | date | time | timedelta, section: _Section) -> Iterator[str]:
    tokens = section.tokens
    exact = value.total_seconds() if isinstance(value, timedelta) else 0.0
    if isinstance(value, datetime | time):
        exact = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    decimals = max((len(text.partition(".")[2]) for kind, text in tokens if kind == "date"), default=0)
    is_rounded = decimals or isinstance(value, timedelta)
    seconds = int(abs(exact) * 10**decimals + (0.5 if is_rounded else 1e-4)) / 10**decimals
    if exact < 0 < seconds:
        yield "-"
    day = value if isinstance(value, date) else date(1899, 12, 31)
    is_half, before = any(kind == "ampm" for kind, _ in tokens), ""
    for i, (kind, text) in enumerate(tokens):
        unit, width = text[:1].lower(), len(text.partition(".")[0])
        following = next((t for k, t in tokens[i + 1 :] if k in ("date", "elapsed")), "")
        if kind == "elapsed":
            yield str(int(seconds // {"h": 3600, "m": 60, "s": 1}[unit])).rjust(width, "0")
        elif kind == "ampm":
            half = text.split("/")[seconds % 86400 >= 43200]
            yield half.upper() if len(half) > 1 else half
        elif kind == "slash" and _CONTINENTAL.fullmatch(section.locale) and section.language == "de":
            yield "."
        elif kind != "date":
            yield text
        elif unit == "m" and width < 3 and (before == "h" or following[:1].lower() == "s"):
            yield f"{int(seconds // 60) % 60:0{width}}"
        elif unit == "h":
            hour = int(seconds // 3600) % 24
            yield f"{(hour + 11) % 12 + 1 if is_half else hour:0{width}}"
        elif unit == "s":
            places = len(text) - width - 1
            yield f"{int(seconds) % 60:0{width}}" + (f"{seconds % 1:.{places}f}"[1:] if places > 0 else "")
        else:
            yield _calendar(unit, width, day, section.language)
        before = unit if kind in ("date", "elapsed") else before


def _calendar(unit: str, width: int, day: date, language: str) -> str:
    """Format a year, a month or a day."""
    if unit == "y":
        return f"{day:%y}" if width < 3 else str(day.year)
    number = day.month if unit == "m" else day.day
    if width < 3:
        return f"{number:0{width}}"
    name = _NAMES[language].split()[number - 1 if unit == "m" else 12 + day.weekday()]
    short = 1 if width == 5 and unit == "m" else 2 if language == "de" and unit == "d" else 3
    return name if width == 4 or (width > 4 and short > 1) else name[:short]

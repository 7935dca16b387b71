"""Numbers in a text, what they measure, and whether another text says them, also rounded or converted."""

from __future__ import annotations

import ast
import operator
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import cycle, permutations
from typing import NamedTuple

_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "twenty thirty forty fifty sixty seventy eighty ninety hundred thousand "
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend"
)
_IN_WORDS = dict(zip(_WORDS.split(), cycle((*range(1, 18), *range(20, 110, 10), 1000)), strict=False))
_DIGITS = "one|two|three|four|five|six|seven|eight|nine|ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun"
_NAMES = (
    "january february march april may june july august september october november december "
    "januar februar märz april mai juni juli august september oktober november dezember"
)
_MONTHS = dict(zip(_NAMES.split(), cycle(range(1, 13)), strict=False))
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12, "tausend": 3, "millionen": 6, "milliarden": 9}
_REFERENCE = r"(?:section|chapter|figure|table|step|source|part|example|exercise|abschnitt|kapitel|abbildung|schritt)s?"
_NUMBER = re.compile(
    r"(?:\b|(?=[-−$€£]))(?:"  # only where one can begin: five times as fast
    rf"(?P<skipped>\b{_REFERENCE}\s+\d[\d.–-]*)|\b(?P<date>\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}})\b"
    rf"|\b(?P<month>{'|'.join(_MONTHS)})\b"
    r"|(?P<sign>(?<![\w)\]}.,])[-−])?(?P<money>[$€£])?(?<![\w.,])"
    r"(?P<number>\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?!\d)|\d+(?:[.,]\d+|_\d{3})*"
    rf"|\b(?:(?:{_DIGITS})und)?(?:{'|'.join(_IN_WORDS)})(?:-(?:{_DIGITS}))?\b)(?:(?P<ordinal>st|nd|rd|th)\b|\^\{{?(?P<power>\d{{1,2}})\b\}}?|(?P<decade>s)\b)?"
    rf"(?:[ \u00a0-](?P<scale>{'|'.join(_SCALES)})\b)?)",
)  # of a text in lower case: without regard to case, it takes twice as long
_AFTER = re.compile(
    r"(?:-|\s{0,2})(?P<power>(?:square|cubic|sq\.?|Quadrat|Kubik)[ -]?)?"
    r"(?P<unit>[%‰°€£]?[^\W\d_]*)(?P<exponent>\^?[23])?"
    r"(?:(?:/| (?:per|pro|a) |·)(?P<per>[^\W\d_]+))?(?P<more>[ \u00a0-][^\W\d_]+)?"
)
_PREFIXES = {"p": -12, "n": -9, "µ": -6, "μ": -6, "m": -3, "c": -2, "k": 3, "M": 6, "G": 9, "T": 12,
             "nano": -9, "micro": -6, "mikro": -6, "milli": -3, "centi": -2, "zenti": -2, "kilo": 3, "mega": 6,
             "giga": 9}  # fmt: skip
_PREFIXED = {  # units that take prefixes, by what they measure; words may have an ending
    "length": "m meter metre", "mass": "g gram gramm", "volume": "L l liter litre", "time": "s second sekunde",
    "pressure": "Pa pascal", "energy": "J joule", "heat": "cal calorie", "power": "W watt", "voltage": "V volt",
    "current": "A ampere", "frequency": "Hz hertz", "data": "B byte", "bits": "bit", "amount": "mol",
}  # fmt: skip
_OTHERS = {  # with the factor to the first one of its kind
    "length": "ft .3048 foot .3048 feet .3048 inch .0254 inches .0254 yard .9144 mile 1609.344 mi 1609.344"
              " meile 1609.344",
    "mass": "t 1000000 ton 1000000 tonne 1000000 lb 453.6 lbs 453.6 pound 453.6 pfund 500 ounce 28.35 oz 28.35",
    "length2": "acre 4046.86 hectare 10000 hektar 10000 ha 10000",
    "volume": "gallon 3.785", "share": "% 1 percent 1 prozent 1 ‰ .1 promille .1",
    "time": "sec 1 min 60 minute 60 h 3600 hour 3600 stunde 3600 day 86400 tag 86400 week 604800 woche 604800"
            " month 2629746 monat 2629746 year 31556952 jahr 31556952 decade 315569520 century 3155695200",
    "pressure": "bar 100000 atm 101325", "power": "hp 735.5 horsepower 735.5", "celsius": "°C 1", "fahrenheit": "°F 1",
    "dollar": "$ 1 dollar 1 usd 1", "euro": "€ 1 euro 1 eur 1", "sterling": "£ 1",
}  # fmt: skip
_SCALES_OF_ONE_KIND = ({"celsius", "fahrenheit"}, {"dollar", "euro", "sterling"})
_ENDINGS = ("s", "n", "en", "e")
_LARGEST, _MOST_DECIMALS = 10**15, 12  # of what is rounded: together, the 28 digits of `Decimal`


class MeasureUnit(NamedTuple):
    """What a unit measures, and its factor to the basic one."""

    measures: str
    factor: float


@lru_cache(maxsize=4096)
def unit_of(word: str) -> MeasureUnit | None:
    """Return the unit that a word names.

    >>> unit_of("mg"), unit_of("Kilometres"), unit_of("leaves")
    (MeasureUnit(measures='mass', factor=0.001), MeasureUnit(measures='length', factor=1000.0), None)
    """
    for name in dict.fromkeys((word, word.lower(), *(word.lower().removesuffix(end) for end in _ENDINGS))):
        if name in _UNITS:
            return _UNITS[name]
    return None


def _units() -> Iterator[tuple[str, MeasureUnit]]:
    for measures, names in _PREFIXED.items():
        for name in names.split():
            yield name, MeasureUnit(measures, 1.0)
            is_symbol = len(name) < 3 or name in ("cal", "bit", "mol")
            for prefix, power in _PREFIXES.items():
                if (len(prefix) == 1) == is_symbol:
                    yield prefix + name, MeasureUnit(measures, 10.0**power)
    for measures, names in _OTHERS.items():
        for name, factor in re.findall(r"(\S+) (\S+)", names):
            yield name, MeasureUnit(measures, float(factor))


_UNITS = dict(_units())
_UNITS |= {name: MeasureUnit("data", unit.factor / 8) for name, unit in _UNITS.items() if unit.measures == "bits"}


class Number(NamedTuple):
    """A number as written, with its unit, and its position; the values that it may mean; its unit, and that of the
    denominator; the two words after it in lower case."""

    text: str
    start: int
    end: int
    values: frozenset[Decimal]
    unit: MeasureUnit | None = None
    per: MeasureUnit | None = None
    counted: tuple[str, ...] = ()
    is_decade: bool = False
    is_ordinal: bool = False
    is_month: bool = False

    @property
    def is_count(self) -> bool:
        """Whether it is small and may count something."""
        return not (self.unit or self.is_ordinal) and all(0 <= value < 10 and not value % 1 for value in self.values)

    @property
    def decimals(self) -> int:
        """Its digits after the point that count."""
        return min(max((-int(value.as_tuple().exponent) for value in self.values), default=0), _MOST_DECIMALS)


def readable(text: str) -> str:
    """Return a text with plain digits, and ``^`` before raised ones.

    >>> readable("H₂O, 10⁶ and 2<sup>8</sup>")
    'H2O, 10^6 and 2^8'
    """
    text = re.sub(r"<sup>([^<>]{0,40})</sup>", r"^\1", text) if "<sup>" in text else text
    return text if text.isascii() else unicodedata.normalize("NFKC", re.sub(r"([⁰¹²³⁴-⁹]+)", r"^\1", text))


_COLUMN_UNIT = re.compile(r"(?:[(\[]|\bin )(?P<unit>[^\s()\[\]|]{1,12}(?: [^\s()\[\]|]{1,12})?)[)\]]?[ \t*]*$")
_RULE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|?)+[ \t]*$")


def with_units(text: str) -> str:
    """Return a text in which the numbers of a pipe table have the units that its columns name.

    >>> print(with_units("| Tree | Height (m) |\\n|---|---|\\n| Oak | 25.5 |"))
    | Tree | Height (m) |
    |---|---|
    | Oak | 25.5 m |
    """
    if "|" not in text:
        return text
    lines, units = text.split("\n"), list[str]()
    for at, line in enumerate(lines):
        if "|" not in line:
            units = []
        elif at and "-" in line and _RULE.match(line) and "|" in lines[at - 1]:
            named = [_COLUMN_UNIT.search(cell) for cell in lines[at - 1].split("|")]
            units = [match["unit"] if match else "" for match in named]
            units = [each if numbers_of(readable(f"1 {each}"))[0].unit else "" for each in units]
        elif any(units):
            cells = zip(line.split("|"), [*units, *[""] * line.count("|")], strict=False)
            lines[at] = "|".join(
                f"{cell.rstrip()} {unit} " if unit and cell.strip(" *")[-1:].isdigit() else cell for cell, unit in cells
            )
    return "\n".join(lines)


def numbers_of(text: str) -> list[Number]:
    """Return the numbers in a text that are no references; the parts of a date one by one.

    >>> found = numbers_of("1,000 oaks, 12.50 m, three million (see chapter 4)")
    >>> [(each.text, sorted(map(str, each.values))) for each in found]
    [('1,000', ['1000']), ('12.50 m', ['12.50']), ('three million', ['3', '3E+6'])]
    >>> [each.text for each in numbers_of("On 2026-10-05, the 3rd and the 1990s, dreißig")]
    ['2026', '10', '05', '3rd', '1990s', 'dreißig']
    """
    found, low = list[Number](), text.lower()
    for match in _NUMBER.finditer(low if len(low) == len(text) else text):
        if match["date"]:
            begin = match.start("date")
            for part in re.finditer(r"\d+", match["date"]):
                found.append(Number(part[0], begin + part.start(), begin + part.end(), frozenset([Decimal(part[0])])))
        elif match["month"]:
            value = frozenset([Decimal(_MONTHS[match["month"]])])
            found.append(Number(text[match.start() : match.end()], *match.span(), value, is_month=True))
        elif match["number"]:
            found.append(_number(text, match))
    return found


def _number(text: str, match: re.Match[str]) -> Number:
    values = frozenset(_readings(match["number"]))
    if match["power"]:
        values = frozenset(value ** int(match["power"]) for value in values)
    if scale := _SCALES.get(match["scale"]):
        values |= {value.scaleb(scale) for value in values}
    if match["sign"]:
        values = frozenset(-value for value in values)
    after, end = _AFTER.match(text, match.end()), match.end()
    unit = per = None
    counted = tuple[str, ...]()
    if after and not match["decade"] and not match["ordinal"]:
        named = {"mph": ("mile", "h"), "kmh": ("km", "h")}.get(after["unit"], (after["unit"], after["per"] or ""))
        unit, counted = unit_of(named[0]), tuple(re.findall(r"[^\W\d_]+", after[0].casefold()))
        per = unit_of(named[1])
        power, exponent = (after["power"] or "").lower(), after["exponent"] or ""
        if unit and (power or exponent):
            exponent = 3 if exponent.endswith("3") or power.startswith(("c", "k")) else 2
            unit = MeasureUnit(f"{unit.measures}{exponent}", unit.factor**exponent)
        end = after.end("per" if per else "exponent" if after["exponent"] else "unit") if unit else end
    if match["money"]:
        unit = unit_of(match["money"])
    return Number(text[match.start() : end].strip(), match.start(), end, values, unit, per, counted,
                  bool(match["decade"]), bool(match["ordinal"]))  # fmt: skip


def _readings(number: str) -> Iterator[Decimal]:
    """Iterate over the possible values of a number: commas and points may separate thousands or decimals."""
    number = re.sub(r"[ \u00a0\u202f'’_]", "", number)
    *whole, last = re.split(r"[.,]", number)
    if not whole:
        in_words = [_IN_WORDS.get(part, 1) for part in re.split("und|-", number)]
        yield Decimal(sum(in_words) if number[0].isalpha() else number)
        return
    if len(last) == 3 and all(len(part) == 3 for part in whole[1:]) and len(whole[0]) <= 3:
        yield Decimal("".join([*whole, last]))
        if last == "000":
            return  # 2,000 is no 2
    if len(whole) == 1 or all(len(part) == 3 for part in whole[1:]):
        yield Decimal(f"{''.join(whole)}.{last}")
    else:  # a version
        yield Decimal("".join([*whole, last]))


# -- calculations ----------------------------------------------------------------------------------

_TERM = r"[-−]?+\(*+[-−]?+\d[\d.,]*+\)*+"
_OPERATOR = r"[-+−–·×*/÷^]"
_MORE = rf"\s*+{_OPERATOR}\s*+{_TERM}"
_CALCULATION = re.compile(rf"{_TERM}(?:{_MORE}){{1,40}}+(?:\s*+[=≈]\s*+{_TERM}(?:{_MORE}|\s?%){{0,40}}+){{1,9}}+")
_IN_TEX = (
    (re.compile(r"\\sqrt\{([^{}]*)\}|√\(?(\d[\d.,]*)\)?"), r"(\1\2)^(1/2)"),
    (re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}"), r"(\1)/(\2)"),
    (re.compile(r"\\(?:cdot|times)(?![a-zA-Z])"), "·"),
    (re.compile(r"\\approx(?![a-zA-Z])"), "≈"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\^\{([-\d+−]{1,9})\}"), r"^(\1)"),
    (re.compile(r"(?<=\d) \([^\W\d_][^()\d]{0,30}\)"), ""),  # 120 (oak) + 85 (beech)
)
_MOST, _LARGEST_POWER = 400, 99  # characters of a calculation that is done


class Calculations(NamedTuple):
    """The numbers with which a text calculates, those that it comes to, what it comes to wrongly, and its rest."""

    operands: list[str]
    results: list[Number]
    wrong: list[str]
    rest: str


def calculated(text: str) -> Calculations:
    """Return the calculations that a text shows.

    >>> operands, results, _, rest = calculated("So $\\\\frac{1120 - 840}{840} \\\\approx 0{,}333$, and 2 · 30 = 70.")
    >>> operands, [each.text for each in results], rest
    (['1120', '840', '840', '2', '30', '70'], ['0,333'], 'So $$, and .')
    """
    operands, results, wrong = list[str](), list[Number](), list[str]()

    def read(match: re.Match[str]) -> str:
        sides = re.split("[=≈]", expression := match[0].rstrip(".,"))
        readings = [_is_right(sides, *marks) for marks in (",.", ".,")] if len(expression) <= _MOST else []
        is_right = any(readings)
        if not is_right and False in readings:  # the other reading may be none: 005
            wrong.append(sides[-1].strip())
        operands.extend(re.findall(r"\d+(?:[.,]\d+)*", sides[0] if is_right else expression))
        results.extend(number for side in sides[1:] if is_right for number in numbers_of(side))
        return match[0][len(expression) :]

    if any(mark in text for mark in ("=", "≈", "\\approx")):
        text = _CALCULATION.sub(read, _without_tex(text))
    return Calculations(operands, results, wrong, text)


_FACTORS = frozenset(map(Decimal, (*range(10), 12, 24, 60, 100, 365, 1000, 3600)))


def is_factor(number: str) -> bool:
    """Return whether a number is small, or converts units or shares, so that no source has to give it."""
    return any(each in _FACTORS for each in _readings(number))


def value_of(formula: str) -> Decimal | None:
    """Return the value of a formula that holds nothing but numbers and operators; None for others.

    >>> value_of("2^{15} - 1"), value_of("n - 1")
    (Decimal('32767'), None)
    """
    return _value_of(_without_tex(formula)) if len(formula) <= _MOST else None


def _without_tex(text: str) -> str:
    for pattern, instead in _IN_TEX:
        text = pattern.sub(instead, text)
    return text


def _is_right(sides: Sequence[str], thousands: str, point: str) -> bool | None:
    """Return whether the sides of a calculation are equal, as far as each is written; None if one has no value."""
    sides = [side.replace(thousands, "").replace(point, ".") for side in sides]
    values = [_value_of(side) for side in sides]
    for written, one, other in zip(sides[1:], values, values[1:], strict=False):
        digits = max((len(each) for each in re.findall(r"\.(\d+)", written)), default=0) + 2 * ("%" in written)
        if one is None or other is None:
            return None
        if abs(one - other) >= Decimal(1).scaleb(-digits):
            return False
    return True


def _value_of(side: str) -> Decimal | None:
    """Return the value of one side of a calculation; None if it has none."""
    bare = re.sub(r"\s", "", side.translate(str.maketrans("−–·×÷", "--**/"))).replace("^", "**")
    try:
        return _computed(ast.parse(bare.replace("%", "/100"), mode="eval").body)
    except (ArithmeticError, SyntaxError, ValueError):
        return None


_OPERATIONS: dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip


def _computed(node: ast.expr) -> Decimal:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Decimal(str(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_computed(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            one, other = _computed(left), _computed(right)
            if isinstance(op, ast.Pow) and abs(other) > _LARGEST_POWER:
                raise ValueError("too large")
            return _OPERATIONS[type(op)](one, other)
    raise ValueError("no calculation")


# -- comparison ------------------------------------------------------------------------------------


def is_stated(number: Number, others: Iterable[Number], *, roughly: bool = False) -> bool:
    """Return whether one of the others is the number: with the same unit, converted, or rounded to its digits;
    `roughly` also rounded to its first digits.

    >>> is_stated(*((each := numbers_of("0.5 kg 500 g"))[0], each[1:])), is_stated(each[0], numbers_of("0.5 g"))
    (True, False)
    """
    decimals = number.decimals
    return any(_is_same(number, other, decimals, roughly=roughly) for other in others)


class NumberIndex:
    """Numbers by their size, to look one up without a comparison with each.

    >>> index = NumberIndex(numbers_of("12.4 kg, 45 %, 1,998 leaves"))
    >>> [index.has(number) for number in numbers_of("12 oaks, 0.45 of them, 13 leaves")]
    [True, True, False]
    """

    def __init__(self, numbers: Iterable[Number]) -> None:
        self.numbers = list(numbers)
        self._by_size = defaultdict[int, list[Number]](list)
        for number in self.numbers:
            for value in number.values:
                share = number.unit is not None and number.unit.measures == "share"
                for size in (_size(value), _size(value / 100)) if share else (_size(value),):
                    self._by_size[size].append(number)

    def has(self, number: Number) -> bool:
        """Return whether one of them is the number: see `is_stated`."""
        others = self.numbers
        if not (number.unit or number.is_ordinal or number.is_decade):
            sizes = {_size(value) for value in number.values}
            if all(size < _ROUND or size % _ROUND for size in sizes):  # else it may be rounded
                near = {each + by for each in sizes for by in (-1, 0, 1)}
                others = [other for size in near for other in self._by_size.get(size, ())]
        return is_stated(number, others)


_ROUND = 1000


def _size(value: Decimal) -> int:
    return min(int(abs(value)), _LARGEST)


def has_other_unit(number: Number, others: Iterable[Number]) -> Number | None:
    """Return the number of the others that has the same value in another unit of its kind, if none has the same one.

    >>> has_other_unit(*((each := numbers_of("5 g, 5 mg, 5 feet"))[0], each[1:])).text
    '5 mg'
    """
    same = [each for each in others if number.unit and each.unit and number.values & each.values]
    if any(number.unit == each.unit and (number.per == each.per or None in (number.per, each.per)) for each in same):
        return None
    kinds = {number.unit.measures} if number.unit else set[str]()
    kinds |= {each for scale in _SCALES_OF_ONE_KIND if kinds & scale for each in scale}
    return next((each for each in same if each.unit and each.unit.measures in kinds), None)


def _is_same(number: Number, other: Number, decimals: int, *, roughly: bool) -> bool:
    pairs = [(value, each) for value in number.values for each in other.values]
    if number.is_ordinal and any((each - 1) // 100 + 1 == value for value, each in pairs):  # a year of this century
        return True
    if number.is_decade:
        return any(value <= each < value + (1 if other.is_decade or value % 10 else 10) for value, each in pairs)
    if number.unit is None or other.unit is None:
        share = number.unit or other.unit
        if share and share.measures == "share":
            hundredth = Decimal("0.01")
            pairs += [(value * hundredth, each) if number.unit else (value, each * hundredth) for value, each in pairs]
    elif number.unit != other.unit or (number.per and other.per and number.per != other.per):
        if number.unit.measures != other.unit.measures or (number.per is None) != (other.per is None):
            return False
        factor = other.unit.factor / number.unit.factor
        if number.per and other.per:
            factor *= number.per.factor / other.per.factor if number.per.measures == other.per.measures else 0
        pairs = [(value, each * Decimal(factor)) for value, each in pairs]
        return any(abs(value - each) <= max(abs(each) / 100, _last_digit(value)[2] / 2) for value, each in pairs)
    return any(_close(value, abs(each) if value > 0 else each, decimals, roughly=roughly) for value, each in pairs)


def _close(value: Decimal, each: Decimal, decimals: int, *, roughly: bool = False) -> bool:
    if value == each or (abs(each) < _LARGEST and each % 1 and round(each, decimals) == value):
        return True
    digits, exponent, place = _last_digit(value)
    if exponent < 3 and not (roughly and digits < 3):
        return False
    return abs(each) > 1 and abs(value - each) < place * (Decimal(1) if roughly else Decimal("0.5"))


@lru_cache(maxsize=4096)
def _last_digit(value: Decimal) -> tuple[int, int, Decimal]:
    """Return the number of digits without zeros at the end, the exponent of the last one, and its place."""
    _, digits, exponent = value.normalize().as_tuple()
    return len(digits), int(exponent), Decimal(1).scaleb(int(exponent))


_ITSELF = 10  # a smaller number without a unit is no operand, or nearly every number could be computed


def is_computed(number: Number, others: Sequence[Number]) -> bool:
    """Return whether a number is the sum, difference, product or quotient of two others.

    >>> is_computed(*((each := numbers_of("7 mg: 14.6 mg, 7.6 mg"))[0], each[1:]))
    True
    >>> is_computed(*((each := numbers_of("120 MB, 30 MB for each of 4"))[0], each[1:]))
    True
    >>> is_computed(*((each := numbers_of("1.5, 10^30 and 10.5"))[0], each[1:]))
    False
    """
    operands = [each for each in others if each.unit or each.decimals or min(map(abs, each.values)) >= _ITSELF]
    values = [value for other in operands for value in other.values if not other.is_month][:60]
    targets = {abs(value) for value in number.values}
    if number.unit is None and any(1000 <= value <= 2100 for value in targets):  # a year: some years after another one
        spans = {value for each in operands if each.unit and each.unit.measures == "time" for value in each.values}
        return any(abs(value - each) in spans for value in targets for each in values)
    decimals, is_share = number.decimals, number.unit is not None and number.unit.measures == "share"
    values += [Decimal(100)] if is_share else []
    alike = [value for other in operands if other.unit == number.unit for value in other.values]
    counts = [
        value for other in others if not (other.unit or other.decimals) for value in other.values if abs(value) > 1
    ]
    results = [each * count for each in alike for count in counts]
    results += [100 - 100 * each for each in values if is_share and 0 < each < 1]
    for a, b in permutations(values, 2):
        results += (a + b, abs(a - b), abs(a * b), abs(a / b) if b else a)
        if is_share and b:  # a part of the whole, or what it lacks or adds
            results += (100 * abs(a / b), abs(100 * (a - b) / b))
    return any(_close(value, each, decimals) for each in results for value in targets)


def is_difference(number: Number, own: Sequence[Number], others: Sequence[Number]) -> bool:
    """Return whether a number is the sum or difference of one of its sentence's own and another one, or a number of
    years between two others.

    >>> is_difference(*((each := numbers_of("124 yards: 265 yards, 141"))[0], each[1:2], each[2:]))
    True
    >>> is_difference(*((each := numbers_of("96 years, 1221, 1317"))[0], [], each[1:]))
    True
    """
    years = [value for each in others for value in each.values if 1000 <= value <= 2100 and not value % 1]
    pairs = [(a, b) for one in own for a in one.values for other in others for b in other.values]
    if number.unit and number.unit.measures == "time":
        pairs += permutations(years, 2)
    return any(value in (a + b, abs(a - b)) for a, b in pairs for value in number.values)

"""Numbers in sentences that differ from what the code beside them printed, and statistics that do not add up.

A number is reported only if no output of the document has it, also rounded or in percent, and either its sentence
names a quantity that the output has with another value (a row, a column, ``p-value = …``), or the only value of the
chunk just above is meant, or a printed value differs in one digit.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from pathlib import Path

from lmm.errors import Finding
from lmm.markdown import spans
from lmm.markdown.blocks import Block, HeadingBlock, TextBlock, serialize
from lmm.markdown.numbers import Number, is_computed, is_stated, numbers_of
from lmm.markdown.sentences import sentence_ends
from lmm.notebook.outputs import printed, read_cell

_PRINTED = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d+(?:[eE][-+]?\d+)?(?![\w.]*[A-Za-z_])")
_NOT_PRINTED = re.compile(r"^(?:[ \t]*(?:##|#>)[ \t]?)?(?:[ \t]*\[\d+\](?= )|# .*|```.*|~~~.*)?", re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w .²-]{0,40}?)\s*[=:]\s*<?\s*(-?\d[\d.,]*(?:[eE][-+]?\d+)?)")
_DIGIT, _APA_P = re.compile(r"\d"), re.compile(r"p[*_$\s]*[=<>][*_$\s]*\d?\.\d")
_WORD = re.compile(r"[^\W\d_]+")
_MEANINGS = (
    (re.compile("_"), " "),
    (re.compile(r"\bp[-_. ]?val(?:ue)?s?\b|\bPr\(>.*?\)|\bp(?=\s*[=<>])", re.IGNORECASE), " pvalue "),
    (re.compile(r"\b(?:multiple )?R[-_. ]?(?:squared?|2|²|\^\{?2\}?)", re.IGNORECASE), " rsquared "),
    (re.compile(r"\b(?:SD|st(?:an)?d(?:ard)?[-_. ]+dev(?:iation)?)\b|σ", re.IGNORECASE), " deviation "),
    (re.compile(r"\b(?:SE|st(?:an)?d(?:ard)?[-_. ]+err(?:or)?)\b", re.IGNORECASE), " stderror "),
    (re.compile(r"\b(?:avg|average)\b", re.IGNORECASE), " mean "),
    (re.compile(r"\bcorr?\b", re.IGNORECASE), " correlation "),
    (re.compile(r"\bvar\b", re.IGNORECASE), " variance "),
    (re.compile(r"\b(m(?:ax|in))\b", re.IGNORECASE), r" \1imum "),
    (re.compile(r"(?<=[a-z])(?=[A-Z])"), " "),
)
# A line of code that prints what a function returns, whatever it is rounded by.
_CALL = re.compile(
    r"^(?:(?:print|round|signif|format|cat)\()*(?:[\w.]+::)?([A-Za-z][\w.]*)\([^\n]*\)[ \t]*(?:#[^\n]*)?$", re.MULTILINE
)
_IS = re.compile(r"(?:\b(?:is|was|are|were|of|equals?|be|about|approximately|ist|war|beträgt)|[=≈])[\s$*(]*$")
_HYPOTHETICAL = re.compile(
    r"\b(?:if|suppose|imagine|assum\w+|instead|would|could|might|hypothetical\w*|level|threshold|cut-?off|wenn|falls|angenommen)\b",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:\b(?:at (?:least|most)|\w+ than|below|above|under|over|between|within|to|exceeds?|unter|über|alpha|seed"
    r"|version)|[<>≤≥±]"
    r"|\\(?:[lg]eq?|pm|alpha\s*=))[\s$*(]*$",
    re.IGNORECASE,
)
_COMPUTED = re.compile(
    r"\b(?:differ\w*|ratio|times|sum|total|minus|plus|twice|half|more|less|larger|smaller|\w*ifferenz|mal|Summe)\b|[-+*/−·]|\\times"
)
_TIMES = re.compile(r"[ -]*(?:times|fold|mal|fach)\b")
_INDEX = re.compile(r"(?<!R)[_^](?:\{[^{}]*\}|\d)")
_HIDDEN = ("code", "comment", "html", "raw", "attributes", "citation", "image", "definition")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A printed value, and the words that a sentence about it contains; none if the output has no name for it."""

    value: Decimal
    names: frozenset[str] = frozenset()
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Output:
    """What a cell printed: its name for messages, its position among the blocks, its quantities."""

    name: str
    at: int
    file: str
    quantities: tuple[Quantity, ...]


def result_problems(blocks: Sequence[Block], path: Path) -> Iterator[Finding]:
    """Iterate over the numbers of a document that differ from the outputs of its code, as they were last knitted, and
    over statistics in APA style whose p-value is not theirs."""
    outputs = _outputs(blocks, path)
    every = [_as_number(each.value) for output in outputs for each in output.quantities]
    sections = [*accumulate(isinstance(block, HeadingBlock) for block in blocks)]
    for at, block in enumerate(blocks):
        if not isinstance(block, TextBlock) or not (_DIGIT if outputs else _APA_P).search(block.source):
            continue
        if any(span.kind == "code_block" for span in spans(block.source)):
            continue
        text = _visible(block.source)
        nearby = _nearby_outputs(at, outputs, sections, introduces=text.rstrip().endswith(":"))
        ends = [*sentence_ends(text)]
        for start, end in zip([0, *(begin for _, begin in ends)], [*(end for end, _ in ends), len(text)], strict=True):
            found = [*_recomputed(text, start, end), *(_differing(text, start, end, nearby, every) if nearby else ())]
            for place, message, hint in found:
                line = block.line + text.count("\n", 0, place)
                yield Finding(line, place - text.rfind("\n", 0, place), message, hint, "warning")


def _outputs(blocks: Sequence[Block], path: Path) -> list[_Output]:
    """Return what the document's cells printed, in order."""
    left_over = [*printed(path, serialize(blocks))]
    found = list[_Output]()
    for at, block in enumerate(blocks if left_over else ()):
        cell = next((read_cell(span) for span in spans(block.source)), None) if isinstance(block, TextBlock) else None
        if cell is not None and left_over and left_over[0][0] == (cell.label or cell.code.partition("\n")[0]):
            name, text, file = left_over.pop(0)
            quantities, calls = [*quantities_in(text)], [*_CALL.finditer(cell.code)]
            if len(quantities) == len(calls) and not any(each.names for each in quantities):
                both = zip(quantities, calls, strict=True)
                quantities = [Quantity(each.value, _names(call[1]), call[0].strip()) for each, call in both]
            found.append(_Output(name, at, file, tuple(quantities)))
    return found


def _nearby_outputs(at: int, outputs: Sequence[_Output], sections: Sequence[int], *, introduces: bool) -> list[_Output]:
    """Return the two outputs above a paragraph and the one below it, within its section, nearest first; one that is
    introduced comes first."""
    place = bisect_left(outputs, at, key=lambda each: each.at)
    above = [each for each in outputs[max(place - 2, 0) : place][::-1] if sections[each.at] == sections[at]]
    below = [each for each in outputs[place : place + 1] if sections[each.at] == sections[at]]
    return below + above if introduces else above + below


# -- what was printed ------------------------------------------------------------------------------


def quantities_in(output: str) -> Iterator[Quantity]:
    """Iterate over the values that an output has, with what it calls them.

    >>> [(str(q.value), sorted(q.names)) for q in quantities_in("   Estimate Pr(>|t|)\\nwt  -5.3445  1.3e-10\\n")]
    [('-5.3445', ['wt']), ('1.3E-10', ['pvalue', 'wt'])]
    >>> [(str(q.value), sorted(q.names)) for q in quantities_in("## t = 2.20, p-value = 0.036")]
    [('2.20', ['t']), ('0.036', ['pvalue'])]
    """
    header, of_residuals = "", False
    lines = _NOT_PRINTED.sub("", output).splitlines()
    has_intercept = any(re.match(r"[\W\d]*intercept", line, re.IGNORECASE) for line in lines)
    for line in lines:
        keyed = [(match[1], match[2]) for match in _KEY.finditer(line)]
        numbers = [*_PRINTED.finditer(line)]
        if keyed:
            found = ((name, _value(number)) for name, number in keyed)
            yield from (Quantity(value, _names(name), name.strip()) for name, value in found if value is not None)
        elif not numbers:
            of_residuals = bool(re.match(r"[\w ]*residuals:\s*$", line, re.IGNORECASE)) or (
                of_residuals and bool(line.strip())
            )
            header = header if re.match(r"[\s|:<>a-z-]*$", line) and re.search("[<:-]", line) else line
        else:
            row = _of_row(line, numbers, header, has_intercept and not of_residuals)
            yield from (replace(each, names=each.names | {"residual"}) if of_residuals else each for each in row)


def _of_row(line: str, numbers: Sequence[re.Match[str]], header: str, has_intercept: bool) -> Iterator[Quantity]:
    before = line[: numbers[0].start()].rstrip(" |")
    if not before and len(numbers) > 1 and re.search(r"[^\W\d]", line[numbers[0].end() : numbers[1].start()]):
        before, numbers = line[: numbers[1].start()].rstrip(), numbers[1:]  # a numbered row of a tibble
    label = re.sub(r"^\d+ ", "", before.strip(" |"))
    at = _end_of_word(header, len(before)) if label else 0
    for match in numbers:
        start, at = at, _end_of_word(header, match.end())
        column, value = header[start:at].strip(" |"), _value(match[0])
        if value is None or (not label and header and not column):  # the number of a row
            continue
        is_estimate = column.casefold() in ("estimate", "value", "coef", "coefficient")
        names = _names(label) | (frozenset() if is_estimate else _names(column))
        text = " ".join(filter(None, (label, column)))
        yield Quantity(value, names, text)
        if has_intercept and "intercept" not in names:  # the row of a predictor
            yield Quantity(value, names - _names(label if label else column) | {"slope"}, text)


def _end_of_word(text: str, at: int) -> int:
    """Return where a word that an offset is inside of ends: columns of decimals end before their names."""
    return at if text[at - 1 : at].isspace() or at == 0 else at + len(re.split(r"[ |]", text[at:], maxsplit=1)[0])


def _value(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "").rstrip("."))
    except InvalidOperation:
        return None


def _names(text: str) -> frozenset[str]:
    """Return the words by which a quantity is named, in one form."""
    for pattern, meaning in _MEANINGS:
        text = pattern.sub(meaning, text)
    return frozenset(word.removesuffix("s") if len(word) > 3 else word for word in _WORD.findall(text.casefold()))


# -- sentences -------------------------------------------------------------------------------------


def _visible(source: str) -> str:
    """Return a text with code, addresses, citations and indices blanked; every character stays at its place."""
    for span in spans(source):
        is_hidden = span.kind in _HIDDEN or (span.kind == "math" and span.target != "inline")
        begin = span.start if is_hidden else source.find("](", span.start, span.end)
        if (is_hidden or span.kind == "link") and begin >= 0:
            source = source[:begin] + re.sub(r"[^\n]", " ", source[begin : span.end]) + source[span.end :]
    return _INDEX.sub(lambda index: " " * len(index[0]), source)


def _differing(
    text: str, start: int, end: int, nearby: Sequence[_Output], every: Sequence[Number]
) -> Iterator[tuple[int, str, str]]:
    sentence = text[start:end]
    if _HYPOTHETICAL.search(sentence):
        return
    names, at = _names(sentence), 0
    near = [_as_number(each.value) for output in nearby for each in output.quantities]
    numbers = [each for each in numbers_of(sentence) if not (each.is_ordinal or each.is_month or each.is_decade)]
    numbers = [each for each in numbers if sentence[: each.start][-1:] not in ("^", "_")]
    for number in numbers:
        before, at = sentence[at : number.start], number.end
        precise = all(int(value.as_tuple().exponent) < 0 for value in number.values)
        if (
            (_digits(number) < 2 and number.values <= {Decimal(0), Decimal(1)})
            or _BOUND.search(before)
            or _TIMES.match(sentence, number.end)
            or not (precise or (_IS.search(before) and not (number.is_count and number.counted)))
        ):
            continue
        if is_stated(number, every if _digits(number) > 2 else near, roughly=True):
            continue
        for output in nearby:
            alone = precise and len(numbers) == 1 and output is nearby[0]
            quantity = _matching_quantity(number, before, names, output, alone=alone)
            values = [_as_number(each.value) for each in output.quantities]
            if quantity is not None and not (_COMPUTED.search(sentence) and is_computed(number, values)):
                what = f"{quantity.text} is {quantity.value}" if quantity.text else f"it is {quantity.value}"
                message = f"{number.text} is not what the code printed: {what}"
                hint = f"chunk '{output.name}' in {output.file}; knit again, or correct the sentence"
                yield start + number.start, message, hint
                break


def _matching_quantity(
    number: Number, before: str, names: frozenset[str], output: _Output, *, alone: bool
) -> Quantity | None:
    """Return the printed quantity that a number of a sentence should have been; None if it may be another one."""
    near = _names(before)
    spread = near & {"stderror", "deviation"}  # the standard error of the mean is not the mean
    candidates = (each for each in output.quantities if each.names and spread <= each.names)
    named = [each for each in candidates if each.names <= names and each.names & near]
    if named:
        return max(named, key=lambda each: (len(each.names), -min(abs(each.value - value) for value in number.values)))
    decimals = [each for each in output.quantities if each.value % 1]
    if alone and len(output.quantities) == 1 and decimals and _IS.search(before):
        return decimals[0]
    few = len(decimals) <= (3 if _digits(number) == 3 else 30)
    return next((each for each in decimals if few and _is_slip(number, each.value)), None)


def _digits(number: Number) -> int:
    return max(len(value.as_tuple().digits) for value in number.values)


def _is_slip(number: Number, value: Decimal) -> bool:
    """Return whether a number differs from a value, rounded to its decimals, in one digit or in two neighbours."""
    if number.decimals < 1 or _digits(number) < 3:
        return False
    stated = f"{max(number.values, key=abs):.{number.decimals}f}"
    expected = f"{value:.{number.decimals}f}"
    if len(stated) != len(expected):
        return False
    differ = [i for i, (a, b) in enumerate(zip(stated, expected, strict=True)) if a != b]
    swapped = len(differ) == 2 and differ[1] - differ[0] == 1 and stated[differ[0]] == expected[differ[1]]
    return len(differ) == 1 or (swapped and stated[differ[1]] == expected[differ[0]])


def _as_number(value: Decimal) -> Number:
    return Number(str(value), 0, 0, frozenset({value}))


# -- statistics in APA style -----------------------------------------------------------------------

_N = r"\s*(-?\d*\.?\d+)\s*"
_APA = re.compile(
    r"\b(?P<kind>[tFrzZ]|χ2|χ²|[χ\\]chi\^?2?|chi2)\s*(?:\((?P<df>[\d.]+)(?:,\s*(?P<more>[\d.]+|N\s*=\s*\d+))?\))?"
    r"\s*=\s*(?P<value>[-−]?\d*\.?\d+)\s*[,;]\s*p\s*(?P<sign>[=<>])\s*(?P<p>\d?\.\d+)"
)


def _recomputed(text: str, start: int, end: int) -> Iterator[tuple[int, str, str]]:
    """Iterate over statistics whose p-value does not follow from them, with one side or two, whatever was rounded."""
    marks = re.compile(r"[*_$\\{}]|\\mathrm")
    plain = marks.sub(lambda m: "\u200b" * len(m[0]), text[start:end])
    for match in _APA.finditer(plain.replace("\u200b", "")):
        value, digits = float(match["value"].replace("−", "-")), len(match["value"].partition(".")[2])
        half = 0.5 * 10.0**-digits
        low, high = sorted(_p_of(match, max(abs(value) + shift, 0)) for shift in (-half, half))
        if not math.isnan(low) and not _follows(match["sign"], match["p"], low, high):
            place = plain.find(match["p"])
            message = f"p {match['sign']} {match['p']} does not follow from {match[0].partition('p')[0].strip(' ,;')}"
            yield start + max(place, 0), message, f"it gives p = {(low + high) / 2:.3g}"


def _follows(sign: str, stated: str, low: float, high: float) -> bool:
    p, half = float(stated), 0.5 * 10.0 ** -len(stated.partition(".")[2])
    for a, b in ((low, high), (low / 2, high / 2)):  # also if the test had one side
        if (sign == "=" and a - half <= p <= b + half) or (sign == "<" and a < p) or (sign == ">" and b > p):
            return True
    return False


def _p_of(match: re.Match[str], value: float) -> float:
    """Return the two-sided p-value of a statistic; not a number if its degrees of freedom are missing."""
    kind, df, more = match["kind"].casefold(), float(match["df"] or "nan"), match["more"]
    if kind == "z":
        return math.erfc(value / math.sqrt(2))
    if kind == "t":
        return _beta(df / 2, 0.5, df / (df + value * value))
    if kind == "r":
        return _beta(df / 2, 0.5, 1 - min(value, 1.0) ** 2)
    if kind == "f":
        other = float(more) if more and not more.startswith("N") else math.nan
        return _beta(other / 2, df / 2, other / (other + df * value))
    return _gamma(df / 2, value / 2)


def _beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Lentz)."""
    if math.isnan(a + b + x) or x <= 0:
        return a + b + x if math.isnan(a + b + x) else 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)) / a
    fraction = c = 1.0
    d = 0.0
    for i in range(300):
        m = i // 2
        if i == 0:
            step = 1.0
        elif i % 2 == 0:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + step * d or 1e-300)
        c = 1 + step / c or 1e-300
        fraction *= c * d
    return front * (fraction - 1)


def _gamma(a: float, x: float) -> float:
    """Return the regularized upper incomplete gamma function, by its series."""
    if math.isnan(a) or x <= 0:
        return a if math.isnan(a) else 1.0
    term = total = 1 / a
    for n in range(1, 2000):
        term *= x / (a + n)
        total += term
    return max(0.0, 1 - total * math.exp(-x + a * math.log(x) - math.lgamma(a)))

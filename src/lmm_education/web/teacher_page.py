"""The teacher's page as HTML: every word from outside is escaped, every plot has its numbers in a table."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lmm_education.exchange_log.exchanges import LoggedExchange
from lmm_education.exchange_log.figures import Bin, CourseSection, Figures, bin_name, day_of
from lmm_education.exchange_log.grouping import Group
from lmm_education.web.plots import Series, bars, lines
from lmm_education.web.teacher_report import RANGES, Range, Report
from lmm_education.web.teacher_texts import Wording

_MOST, _MOST_DOWN, _MOST_NEVER, _MOST_WORDINGS = 25, 12, 200, 20
# What became of questions: names in `Figures` and in the texts, and the colour.
_SHARES = (
    *(("answered", "series-0"), ("uncited", "series-1"), ("not_found", "series-2")),
    *(("refused", "series-3"), ("failed", "series-4"), ("left", "series-5")),
)


def report_html(report: Report, say: Wording) -> str:
    """All of it."""
    total = report.total
    if not total.questions:
        return f"<p>{say['empty']}</p>{_sections(report, say)}"
    parts = [
        _tiles(total, say),
        f'<div class="plots">{_over_time(report, say)}{_waits(report, say)}{_costs(report, say)}</div>',
        _block(say["asked_most"], say["asked_help"], _groups(report.asked, say)),
        _block(say["unanswered"], say["unanswered_help"], _groups(report.unanswered, say)),
        _block(say["down"], say["down_help"], _down(report.down, say)),
        _failures(report, say),
        _sections(report, say),
    ]
    return "".join(parts)


def range_html(range: Range, say: Wording) -> str:
    """The choice of days."""
    links = "".join(
        f'<a href="?days={n}"{_current(n == range.days)}>{say["days"].replace("{n}", str(n))}</a>' for n in RANGES
    )
    return (
        f'<nav class="range" aria-label="{say["range"]}">{links}'
        f'<form id="range"><label>{say["from"]} <input type="date" name="from" value="{range.first}" required></label>'
        f'<label>{say["to"]} <input type="date" name="to" value="{range.last}" required></label>'
        f'<button type="submit">{say["show"]}</button></form></nav>'
    )


def _current(is_so: bool) -> str:
    return ' aria-current="true"' if is_so else ""


# -- figures and plots -----------------------------------------------------------------------------


def _tiles(total: Figures, say: Wording) -> str:
    shares = ", ".join(f"{say.number(getattr(total, name))} {say[name]}" for name, _ in _SHARES if getattr(total, name))
    wait = "–" if total.first_word_median is None else say.number(total.first_word_median, 1)
    p95 = "" if total.first_word_p95 is None else f"{say['p95']}: {say.number(total.first_word_p95, 1)}"
    tiles = (
        (say["questions"], say.number(total.questions), shares),
        (say["students_a_day"], say.number(total.students / total.days, 1), say["students_help"]),
        (say["up"], say.number(total.up), f"{say['down']}: {say.number(total.down)}"),
        (say["wait"], wait, p95),
        (say["cost"], say.number(total.cost, 2), f"{say['tokens']}: {say.number(total.tokens)}"),
    )
    found = (f"<div><dt>{name}</dt><dd>{value}</dd><dd>{more}</dd></div>" for name, value, more in tiles)
    return f'<dl class="tiles">{"".join(found)}</dl>'


@dataclass(frozen=True, slots=True)
class _Column:
    """A row of numbers over time, in a plot and in its table."""

    name: str
    values: Sequence[float | None]
    style: str


def _over_time(report: Report, say: Wording) -> str:
    columns = [
        _Column(say[name], [getattr(bin.figures, name) for bin in report.bins], style)
        for name, style in _SHARES if getattr(report.total, name)
    ]  # fmt: skip
    return _plot(say["over_time"], report, columns, bars, 0, say)


def _waits(report: Report, say: Wording) -> str:
    columns = [
        _Column(say["median"], [bin.figures.first_word_median for bin in report.bins], "series-0"),
        _Column(say["p95"], [bin.figures.first_word_p95 for bin in report.bins], "series-1"),
    ]
    return _plot(say["wait"], report, columns, lines, 1, say)


def _costs(report: Report, say: Wording) -> str:
    if not report.total.cost:
        return _plot(say["tokens"], report, [_Column(say["tokens"], _tokens(report.bins), "series-0")], bars, 0, say)
    costs = _Column(say["cost"], [bin.figures.cost for bin in report.bins], "series-0")
    return _plot(f"{say['cost']} ({say['cost_help']})", report, [costs], bars, 2, say)


def _tokens(bins: Iterable[Bin]) -> list[float | None]:
    return [bin.figures.tokens for bin in bins]


def _plot(
    title: str, report: Report, columns: Sequence[_Column], draw: Callable[..., str], digits: int, say: Wording
) -> str:
    unit = bin_name(report.range.days)
    labels = [say.day(bin.first, unit) for bin in report.bins]
    series = [Series(column.name, column.values, column.style) for column in columns]
    drawn = draw(title, labels, series, lambda value: _short(value, digits, say))
    keys = (f'<li class="{column.style}">{_e(column.name)}</li>' for column in columns)
    rows = [
        [_e(label), *(_cell(column.values[i], digits, say) for column in columns)] for i, label in enumerate(labels)
    ]
    shown = _table([say[unit], *(_e(column.name) for column in columns)], rows, numbers=range(1, len(columns) + 1))
    return (
        f'<figure><figcaption>{_e(title)}</figcaption>{drawn}<ul class="keys">{"".join(keys)}</ul>'
        f"<details><summary>{say['as_table']}</summary>{shown}</details></figure>"
    )


def _cell(value: float | None, digits: int, say: Wording) -> str:
    return "–" if value is None else say.number(value, digits)


def _short(value: float, digits: int, say: Wording) -> str:
    """A number at an axis: with the digits that it needs, thousands as k."""
    if value >= 10_000:
        return f"{say.number(value / 1000, 0 if value % 1000 == 0 else 1)}k"
    return say.number(value, 0 if value == int(value) else max(digits, 2 if value < 0.1 else 1))


# -- questions -------------------------------------------------------------------------------------


def _groups(groups: Sequence[Group], say: Wording) -> str:
    if not groups:
        return f"<p>{say['nothing']}</p>"
    rows = [[_question(group, say), say.number(len(group.exchanges)), say.number(group.students), _thumbs(group)]
            for group in groups[:_MOST]]  # fmt: skip
    heads = [say["question"], say["times"], say["students"], f"{say['up']}/{say['down']}"]
    return _table(heads, rows, numbers=(1, 2, 3)) + _more(len(groups) - _MOST, say)


def _question(group: Group, say: Wording) -> str:
    wordings = group.wordings
    if len(wordings) == 1:
        return _e(group.question)
    items = "".join(f"<li>{_e(text)}</li>" for text in wordings[:_MOST_WORDINGS])
    count = say["wordings"].replace("{n}", str(len(wordings)))
    return f"<details><summary>{_e(group.question)} <small>({count})</small></summary><ul>{items}</ul></details>"


def _thumbs(group: Group) -> str:
    up, down = (sum(exchange.reaction == sign for exchange in group.exchanges) for sign in (1, -1))
    return f"{up}/{down}" if up or down else ""


def _down(exchanges: Sequence[LoggedExchange], say: Wording) -> str:
    if not exchanges:
        return f"<p>{say['nothing']}</p>"
    items = []
    for exchange in exchanges[:_MOST_DOWN]:
        comment = f"<blockquote>{_e(exchange.comment)}</blockquote>" if exchange.comment else ""
        sources = "".join(
            f"<li>{_link(CourseSection(source.section, source.file, source.headings, source.title))}</li>"
            for source in exchange.sources if source.cited
        )  # fmt: skip
        items.append(
            f"<article><h3>{_e(exchange.question)}</h3><p><small>{say.day(day_of(exchange.time, None))}</small></p>"
            f'{comment}<details><summary>{say["answer"]}</summary><p class="text">{_e(exchange.answer)}</p>'
            f"<ul>{sources}</ul></details></article>"
        )
    return "".join(items) + _more(len(exchanges) - _MOST_DOWN, say)


def _failures(report: Report, say: Wording) -> str:
    if not report.failures:
        return ""
    rows = [
        [f"{_e(each.kind)}<br><small>{_e(each.text)}</small>", say.number(each.times), say.day(day_of(each.last, None))]
        for each in report.failures
    ]
    return _block(say["failures"], "", _table([say["kind"], say["times"], say["last"]], rows, numbers=(1,)))


# -- sections --------------------------------------------------------------------------------------


def _sections(report: Report, say: Wording) -> str:
    found = [use for use in report.uses if use.offered]
    never = [use.section for use in report.uses if not use.offered]
    rows = [[_link(use.section), say.number(use.cited), say.number(use.offered)] for use in found[:_MOST]]
    heads = [say["section"], say["cited"], say["offered"]]
    most = _table(heads, rows, numbers=(1, 2)) if rows else f"<p>{say['nothing']}</p>"
    items = "".join(f"<li>{_link(section)}</li>" for section in never[:_MOST_NEVER])
    told = say["never_help"].replace("{n}", str(len(never))).replace("{all}", str(len(report.uses)))
    return _block(say["found_most"], "", most + _more(len(found) - _MOST, say)) + _block(
        say["never"], told, f"<ul>{items}</ul>{_more(len(never) - _MOST_NEVER, say)}"
    )


def _link(section: CourseSection) -> str:
    """A button that opens a section."""
    return (
        f'<button type="button" class="section" data-section="{_e(section.id)}">{_e(section.path)}</button> '
        f"<small>{_e(section.file)}</small>"
    )


# -- pieces ----------------------------------------------------------------------------------------


def _block(title: str, told: str, content: str) -> str:
    note = f'<p class="note">{told}</p>' if told else ""
    return f"<section><h2>{title}</h2>{note}{content}</section>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Iterable[int] = ()) -> str:
    """A table whose cells are HTML; columns in `numbers` stand at the right."""
    right = set(numbers)

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(f"<{tag}{_right(i in right)}>{cell}</{tag}>" for i, cell in enumerate(row))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><tr>{cells("th", heads)}</tr>{body}</table></div>'


def _right(is_number: bool) -> str:
    return ' class="align-right"' if is_number else ""


def _more(left: int, say: Wording) -> str:
    return f'<p class="note">{say["more"].replace("{n}", str(left))}</p>' if left > 0 else ""


def _e(text: str) -> str:
    return html.escape(text)

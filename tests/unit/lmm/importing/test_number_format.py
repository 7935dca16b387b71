"""Values of a sheet, as Excel shows them with its number formats."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest
from hypothesis import given, strategies as st

from lmm.importing.number_format import Value, shown, stored

DAY = datetime(2026, 2, 9, 14, 5, 7)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.5, "0.0%", "50.0%"),
        (1234567, "#,##0", "1,234,567"),
        (1234567, '0.0,,"M"', "1.2M"),
        (-1234.5, "#,##0.00;[Red]-#,##0.00", "-1,234.50"),
        (-1234.5, '"$"#,##0_);("$"#,##0)', "($1,235)"),
        (0, '0;-0;"-"', "-"),
        (0, "0.00;;", ""),
        (-3, "[Red](0)", "-(3)"),
        (1234.5, "#,##0.00 [$€-407]", "1,234.50 €"),
        (2.675, "0.00", "2.68"),  # half is rounded up, in decimal
        (0.25, "0.##", "0.25"),
        (0.000123, "0.00E+00", "1.23E-04"),
        (-9.996e9, "0.00E+00", "-1.00E+10"),
        (1234567, "##0.0E+0", "1.2E+6"),
        (0, "#,###", ""),
        (12, "0,000", "0,012"),
        (12, 'General" km"', "12 km"),
        (25, "0 °C", "25 °C"),
        ("x", '"<"@">"', "<x>"),
        (True, "General", "TRUE"),
        (DAY, "yyyy-mm-dd", "2026-02-09"),
        (DAY, "dd.mm.yy hh:mm", "09.02.26 14:05"),
        (DAY, "d mmm yyyy", "9 Feb 2026"),
        (DAY, "[$-409]dddd, mmmm d, yyyy;@", "Monday, February 9, 2026"),
        (DAY, "h:mm AM/PM", "2:05 PM"),
        (DAY.replace(hour=23, minute=59, second=59, microsecond=600_000), "yyyy-mm-dd hh:mm", "2026-02-09 23:59"),
        (DAY, "mm-dd-yy", "2026-02-09"),  # every system shows its own
        (DAY, 'yyyy"年"m"月"d"日"', "2026年2月9日"),
        (time(9, 15), "hh:mm", "09:15"),
        (time(0, 1, 2, 500000), "mm:ss.0", "01:02.5"),
        (timedelta(hours=30, minutes=5), "[h]:mm:ss", "30:05:00"),
        (timedelta(minutes=90), "[mm]:ss", "90:00"),
        (timedelta(seconds=309.5), "[h]:mm:ss", "0:05:10"),
        (5, "[>=100]0;0.0", "5.0"),
        (1500, '[>=1000000]0.0,,"M";[>=1000]0.0,"k";0', "1.5k"),
        (-1500, '[>=1000]0.0,"k";0', "-1500"),
        (-1500, '[<0]"minus "0;0', "minus 1500"),
        (-1500, "[>100]#,##0;[<=-100](#,##0);0", "(1,500)"),
        (-1500, "0.00;@", "-1500.00"),
        (2.25, "# ?/?", "2 1/4"),
        (-2.333, "# ??/16", "-2 5/16"),
        (2.25, "?/4", "9/4"),
        (3, "# ?/?", "3"),
        (3, "0 0/0", "3 0/1"),
        (0.999, "# ?/?", "1"),
        (1500, "000-00-0000", "000-00-1500"),
        (-1500, "(000) 000-0000", "-(000) 000-1500"),
        (1234567.5, "#\\ ##0.00", "1234 567.50"),
        (1500, "0.###", "1500"),
        (1234567.5, "[$-407]#,##0.00", "1.234.567,50"),  # as LibreOffice writes what is German
        (1234567.5, "#,##0.00 [$€-407]", "1,234,567.50 €"),
        (DAY, "[$-407]dddd, d. mmmm yyyy", "Montag, 9. Februar 2026"),
        (DAY, "[$-40C]d mmmm yyyy", "9 février 2026"),
        (DAY, "[$-de-DE]d/mmm", "9/Feb"),
        (DAY, 'd"', "9"),
        (DAY.replace(microsecond=920_000), "[$-F400]h:mm:ss AM/PM", "14:05:07"),
    ],
)
def test_values_are_shown_as_excel_shows_them(value: Value, code: str, text: str) -> None:
    """Numbers, dates, durations, percents, currencies, texts."""
    written = shown(value, code)
    assert written is not None
    assert written.strip() == text


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (5, "[>=100]0"),
        (DAY, "[$-419]d mmmm yyyy"),
        (DAY, "[$-40C]d mmm yyyy"),
        (DAY, "yyyy-q"),
        (DAY, "[$-411]ge.m.d"),
        (DAY, "General"),
        (5, "[DBNum1]0"),
        (1500, "0E0"),
    ],
)
def test_a_format_that_is_not_understood_is_no_guess(value: Value, code: str) -> None:
    """The caller writes the stored value, and says so."""
    assert shown(value, code) is None


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.datetimes(), st.timedeltas()), st.text(
    st.sampled_from("0#?.,%/eE+-;@\"\\[]$hmsdyAMPm:_* ()G")))  # fmt: skip
def test_no_format_raises(value: Value, code: str) -> None:
    """A format is a stranger's text."""
    assert isinstance(shown(value, code), str | None)


@given(st.floats(min_value=-1e9, max_value=1e9))
def test_a_stored_number_keeps_ten_digits(value: float) -> None:
    """Without a format, numbers are written as numbers."""
    assert float(stored(value)) == pytest.approx(value, rel=1e-9)

"""Numbers in sentences beside what the code printed: `lmm scan --results`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lmm import Document

FIXTURES = Path(__file__).parents[3] / "fixtures/results"


def reported(path: Path) -> list[str]:
    """The numbers that are reported, with what was printed."""
    return [f"{each.line} {each.message}" for each in Document.open(path).problems(results=True)]


SLIPS = [
    "8 -5.44 is not what the code printed: wt is -5.344472",
    "8 38.9 is not what the code printed: (Intercept) is 37.285126",
    "14 3.41 is not what the code printed: Residual standard error is 3.046",
    "15 0.85 is not what the code printed: Multiple R-squared is 0.7528",
    "23 21.4 miles a gallon is not what the code printed: mean(mtcars$mpg) is 20.09062",
    "35 0.0024 is not what the code printed: p-value is 0.001374",
    "35 24.93 is not what the code printed: it is 24.39231",
    "36 p = .01 does not follow from t(18.33) = -3.77",
    "44 9.93 is not what the code printed: it is 3.932409",
]


def test_slips_are_reported_and_nothing_else() -> None:
    """Rounded, in percent, hypothetical and unrelated numbers are not reported; the output is that of knitr."""
    assert reported(FIXTURES / "slips.Rmd") == SLIPS
    assert Document.open(FIXTURES / "slips.Rmd").problems() == ()


@pytest.mark.knit
def test_the_output_is_that_of_knitr(tmp_path: Path) -> None:
    """The document is knitted here."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    shutil.copy(FIXTURES / "slips.Rmd", tmp_path)
    knit = "knitr::knit('slips.Rmd', 'slips.md', quiet = TRUE)"
    if subprocess.run(["Rscript", "-e", knit], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("knitr is not installed")
    assert reported(tmp_path / "slips.Rmd") == SLIPS


@pytest.mark.parametrize(
    ("statistic", "p"),  # p-values by R: 2*pt(-2.2, 28), pf(4.5, 2, 27, lower=FALSE), …
    [("t(28) = 2.20", ".036"), ("F(2, 27) = 4.50", ".021"), ("r(30) = .45", ".010"), ("z = 1.96", ".050"),
     ("χ2(2, N = 90) = 5.99", ".050"), ("*t*(28) = -2.20", ".018"), ("$t(1000) = 40.1", ".001")],
)  # fmt: skip
def test_statistics_are_recomputed(statistic: str, p: str) -> None:
    """A p-value that follows, with two sides or one, is accepted; another one is not."""
    sign = "<" if "40.1" in statistic else "="
    for said, count in ((f"p {sign} {p}", 0), ("p = .3", 1)):
        text = f"There is an effect, {statistic}, {said}.\n"
        assert len(Document.from_text(text, path=Path("a.Rmd")).problems(results=True)) == count, text


TIBBLE = """# Beauty

```{r}
get_regression_table(score_model)
```

The intercept is 3.88, and the slope for beauty is 0.067. The intercept is 3.98. The standard error of the slope is
0.061. The 95 % confidence interval of the slope is [0.035, 0.099].

```{python}
df.mean()
```

The mean height is 172.4, and the weight is 65.2.
"""
SHOWN = """
```
## # A tibble: 2 × 6
##   term      estimate std_error statistic p_value lower_ci
##   <chr>        <dbl>     <dbl>     <dbl>   <dbl>    <dbl>
## 1 intercept    3.88      0.076     51.0        0    3.73
## 2 bty_avg      0.067     0.016      4.09       0    0.035
## # upper_ci: 4.03, 0.099
```
"""


def test_tibbles_and_series(tmp_path: Path) -> None:
    """Columns of decimals that end before their names, numbered rows, and what pandas prints."""
    (tmp_path / "a.Rmd").write_text(TIBBLE)
    knitted = TIBBLE.replace("```{r}", "```r").replace("```{python}", "```python")
    knitted = knitted.replace("model)\n```\n", "model)\n```\n" + SHOWN)
    pandas = "\n```\n## height    174.2\n## weight     65.2\n## dtype: float64\n```\n"
    (tmp_path / "a.md").write_text(knitted.replace("df.mean()\n```\n", "df.mean()\n```\n" + pandas))
    assert reported(tmp_path / "a.Rmd") == [
        "7 3.98 is not what the code printed: intercept estimate is 3.88",
        "8 0.061 is not what the code printed: bty_avg std_error is 0.016",
        "14 172.4 is not what the code printed: height is 174.2",
    ]


@pytest.mark.parametrize(
    ("code", "output", "sentence", "found"),
    [
        ("mean(c(1,2,3))", "[1] 2", "The mean is 3.", "3 is not what the code printed: mean(c(1,2,3)) is 2"),
        ("mean(x)\nsd(x)", "[1] 42.98\n## [1] 25.77", "The mean is 43, the standard deviation is 27.5.",
         "27.5 is not what the code printed: sd(x) is 25.77"),
        ("median(x)", "[1] 36", "The median is 12 times the other one.", ""),
    ],
)  # fmt: skip
def test_what_a_function_printed_has_its_name(
    tmp_path: Path, code: str, output: str, sentence: str, found: str
) -> None:
    """Also whole numbers, and several in one chunk."""
    (tmp_path / "a.Rmd").write_text(f"# A\n\n```{{r}}\n{code}\n```\n\n{sentence}\n")
    (tmp_path / "a.md").write_text(f"# A\n\n```r\n{code}\n```\n\n```\n## {output}\n```\n\n{sentence}\n")
    assert [line.partition(" ")[2] for line in reported(tmp_path / "a.Rmd")] == ([found] if found else [])


def test_a_document_that_was_never_knitted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing is compared, and the command says so."""
    from lmm.cli.main import main

    (tmp_path / "a.Rmd").write_text("---\ntitle: A\ndocid: a\n---\n\n```{r}\n1.5\n```\n\nThe mean is 2.5.\n")
    assert main(["scan", "--results", str(tmp_path / "a.Rmd")]) == 0
    assert "no output of its code was found; knit it first" in capsys.readouterr().err


SUMMARY = """
## Call:
## lm(formula = mpg ~ wt, data = mtcars)
##
## Residuals:
##     Min      1Q  Median      3Q     Max
## -4.5432 -2.3647 -0.1252  1.4096  6.8727
##
## Coefficients:
##             Estimate Std. Error t value Pr(>|t|)
## (Intercept)  37.2851     1.8776  19.858  < 2e-16 ***
## wt           -5.3445     0.5591  -9.559 1.29e-10 ***
"""


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("The median weight of the cars is 3.325 tons.", ""),
        ("The median residual is -0.125.", ""),
        ("The median residual is -0.472.", "-0.472 is not what the code printed: Median is -0.1252"),
        ("The slope is 9.93.", "9.93 is not what the code printed: wt Estimate is -5.3445"),
        ("The standard error of the slope is 0.559, that of the intercept 1.878.", ""),
        ("The standard error of wt is 0.83.", "0.83 is not what the code printed: wt Std. Error is 0.5591"),
    ],
)
def test_the_row_that_is_meant(tmp_path: Path, sentence: str, message: str) -> None:
    """Of a model's summary: its residuals are no slopes, and their median is no other one."""
    document = "# A\n\n```{r fit}\nsummary(fit)\n```\n"
    (tmp_path / "a.Rmd").write_text(f"{document}\n{sentence}\n")
    (tmp_path / "a.md").write_text(f"# A\n\n\n```r\nsummary(fit)\n```\n\n```{SUMMARY}```\n\n{sentence}\n")
    assert [line.partition(" ")[2] for line in reported(tmp_path / "a.Rmd")] == ([message] if message else [])

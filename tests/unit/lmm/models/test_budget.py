"""Budgets, and who has used up what."""

from __future__ import annotations

import pytest

from lmm.errors import ConfigError, LimitReached
from lmm.messages import Usage
from lmm.models.budget import SharedBudget, UsageLimits, parse_budget


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        *(
            ("20000", UsageLimits(tokens=20000)),
            ("20_000 tokens", UsageLimits(tokens=20000)),
            ("1.5k", UsageLimits(tokens=1500)),
            ("1,500", UsageLimits(tokens=1500)),
        ),
        *(
            ("2M", UsageLimits(tokens=2_000_000)),
            ("0.50$", UsageLimits(dollars=0.5)),
            ("$.5", UsageLimits(dollars=0.5)),
        ),
        *(("0.5 USD", UsageLimits(dollars=0.5)), ("2 dollars", UsageLimits(dollars=2.0))),
    ],
)
def test_budgets(text: str, wanted: UsageLimits) -> None:
    """Tokens or money."""
    assert parse_budget(text) == wanted


@pytest.mark.parametrize("text", ["", "a lot", "-5", "0.5", "1,5k", "0", "5 €", "$"])
def test_what_is_no_budget(text: str) -> None:
    """It is refused with an example."""
    with pytest.raises(ConfigError, match="is not a budget"):
        parse_budget(text)


def test_tokens() -> None:
    """Those sent count as those received."""
    tally = SharedBudget(UsageLimits(tokens=100))
    tally.begin("m")
    tally.add("m", Usage(60, 40, None, 1))
    with pytest.raises(LimitReached, match="used up its budget of 100 tokens"):
        tally.begin("m")


def test_money_where_prices_are_known() -> None:
    """The price is looked up where the provider does not tell it."""
    tally = SharedBudget(UsageLimits(dollars=0.001))
    tally.begin("OpenAI/gpt-4o")
    assert tally.add("OpenAI/gpt-4o", Usage(1000, 1000, None, 1)).cost
    with pytest.raises(LimitReached, match=r"used up its budget of \$0.001"):
        tally.begin("OpenAI/gpt-4o")


def test_money_where_no_price_is_known() -> None:
    """A budget that nobody can keep is refused before the first request."""
    with pytest.raises(LimitReached, match=r"price of Ollama/llama3\.2 is not known"):
        SharedBudget(UsageLimits(dollars=1)).begin("Ollama/llama3.2")

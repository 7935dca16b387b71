"""Budgets, and who has used up what."""

from __future__ import annotations

import asyncio

import pytest

from lmm.config import load_settings
from lmm.errors import ConfigError, LimitReached
from lmm.messages import ChatRequest, Event, Message, Notice, Reply, Usage
from lmm.models.budget import SharedBudget, UsageLimits, parse_budget
from lmm.models.client import Client
from lmm.models.port import Ask
from lmm.testing import ScriptedModel


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


LEAF = ChatRequest((Message("user", "Is a leaf green?"),))  # 16 characters: about 4 tokens


def test_tokens() -> None:
    """Those sent count as those received; requests in progress count with their input."""
    tally = SharedBudget(UsageLimits(tokens=100))
    tally.begin("m", LEAF)
    tally.add("m", Usage(60, 30, None, 1))
    tally.begin("m", LEAF)
    with pytest.raises(LimitReached, match=r"budget of 100 tokens \(90 spent\) does not cover .* about 4 tokens"):
        tally.begin("m", LEAF)


def test_money_where_prices_are_known() -> None:
    """The price is looked up where the provider does not tell it; a request that alone costs more is not sent."""
    tally = SharedBudget(UsageLimits(dollars=0.001))
    with pytest.raises(LimitReached, match=r"about 1,000 tokens \(\$0.0025\)"):
        tally.begin("OpenAI/gpt-4o", ChatRequest((Message("user", "leaf" * 1000),)))
    tally.begin("OpenAI/gpt-4o", LEAF)
    assert tally.add("OpenAI/gpt-4o", Usage(1000, 1000, None, 1)).cost
    assert tally.excess.endswith("is exceeded by $0.0115")
    with pytest.raises(LimitReached, match=r"budget of \$0.001"):
        tally.begin("OpenAI/gpt-4o", LEAF)


def test_money_where_no_price_is_known() -> None:
    """A budget that nobody can keep is refused before the first request."""
    with pytest.raises(LimitReached, match=r"price of Ollama/llama3\.2 is not known"):
        SharedBudget(UsageLimits(dollars=1)).begin("Ollama/llama3.2", LEAF)


@pytest.mark.parametrize(
    ("budget", "sent", "told"), [("50", 0, "about 51 tokens"), ("52", 1, "is exceeded by 1 token")]
)
def test_a_client_sends_nothing_that_its_budget_does_not_cover(budget: str, sent: int, told: str) -> None:
    """Where the reply exceeds the budget, a notice says by how much."""
    model, events = ScriptedModel([Reply("Green.", "Scripted/replies", usage=Usage(51, 2, None, 1))]), list[Event]()
    client = Client(
        load_settings(env={}), model=model, budget=budget, listener=lambda event, place: events.append(event)
    )
    (outcome,) = asyncio.run(client.gather([client.ask(Ask.of("leaf" * 51))]))
    assert len(model.seen) == sent
    assert told in "".join([str(outcome), *(each.text for each in events if isinstance(each, Notice))])

"""How many tokens a text has, counted without a network, and what they cost, where that is known.

Vendors' tokenizers are downloads; the one that comes with wordllama (Llama 2's, 32,000 tokens) is here.
Vocabularies of later models are larger, so that they need fewer tokens for the same text: the count is
meant as an upper bound for budgets, not as a bill.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

from lmm.messages import ChatRequest, Reply, Usage, message_texts

_BYTES_A_TOKEN = 2.5  # where no tokenizer is installed: below what any of them needs for prose


@functools.lru_cache(maxsize=4096)
def count_tokens(text: str) -> int:
    """The number of tokens of `text`, at least 1 if there is any; remembered, since counting takes 0.3 s a megabyte.

    >>> count_tokens(""), count_tokens("A leaf is green.")
    (0, 5)
    """
    tokenizer = _tokenizer()
    if tokenizer is None:
        return math.ceil(len(text.encode()) / _BYTES_A_TOKEN)
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


@functools.cache
def _tokenizer() -> Tokenizer | None:
    folder = wordllama_folder()
    return None if folder is None else tokenizer_in(folder)


def wordllama_folder() -> Path | None:
    """Where wordllama is installed; found, not imported: importing it takes a quarter of a second."""
    spec = importlib.util.find_spec("wordllama")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def tokenizer_in(folder: Path) -> Tokenizer:
    """Its tokenizer, which cuts nothing off."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def estimated(request: ChatRequest, reply: Reply) -> Usage:
    """What a request and its reply took, where the server did not count: four characters to a token, and the price.

    >>> from lmm.messages import Message
    >>> estimated(ChatRequest((Message("user", "Is a leaf green?"),)), Reply("Yes, it is.", "Ollama/llama3.2"))
    Usage(input_tokens=4, output_tokens=3, cost=None, requests=1, estimated=True, cached_tokens=0)
    """
    tools = [f"{tool.name}{tool.description}{json.dumps(tool.parameters)}" for tool in request.tools]
    sent = sum(len(text) for text in (*tools, *(text for one in request.messages for text in message_texts(one))))
    thought = [thought.text for thought in reply.reasoning]
    made = sum(len(text) for text in (reply.text, *thought, *(call.name + call.arguments for call in reply.calls)))
    usage = Usage(math.ceil(sent / 4), math.ceil(made / 4), None, 1, estimated=True)
    return replace(usage, cost=price(reply.model, usage))


# -- what they cost --------------------------------------------------------------------------------


def price(model: str, usage: Usage) -> float | None:
    """US dollars for this usage of ``Provider/model``, or None where the price is not known.

    The prices are those that came with the installed `genai_prices`; nothing is asked over the network.

    >>> price("Builtin/extractive", Usage(1000, 100)), price("Ollama/llama3.2", Usage(1000, 100))
    (0.0, None)
    """
    provider, _, name = model.partition("/")
    if provider == "Builtin":
        return 0.0
    try:
        from genai_prices import Usage as PricedUsage, calc_price
    except ImportError:
        return None
    try:
        result = calc_price(
            PricedUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
            model_ref=name, provider_id=provider.lower(),
        )  # fmt: skip
    except (LookupError, ValueError):
        return None
    return float(result.total_price)

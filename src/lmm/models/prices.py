"""What tokens cost, where that is known."""

from __future__ import annotations

from lmm.messages import Usage


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
        from genai_prices import Usage as PricedUsage
        from genai_prices import calc_price
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

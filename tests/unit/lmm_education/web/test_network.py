"""Addresses that anybody may write into a header."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lmm.errors import ConfigError
from lmm_education.web.login import caller_address, household, networks

PROXIES = networks(["127.0.0.1", "10.0.0.0/8"])


@given(st.text())
def test_a_header_from_strangers_counts_for_nothing(header: str) -> None:
    """Whatever it says."""
    assert caller_address("192.0.2.1", header, PROXIES) == "192.0.2.1"


@given(st.text())
def test_what_callers_put_before_the_proxys_word_counts_for_nothing(header: str) -> None:
    """The proxy adds the address that it saw."""
    assert caller_address("127.0.0.1", f"{header}, 192.0.2.7, 10.1.1.1", PROXIES) == "192.0.2.7"


@given(st.ip_addresses())
def test_a_household_is_one_address_of_version_4(address: object) -> None:
    """Or a network of 64 bits; never an error."""
    assert household(str(address))


def test_misspelt_networks_are_refused() -> None:
    """With an example."""
    with pytest.raises(ConfigError, match=r"10\.0\.0\.0/8"):
        networks(["proxy.example.org"])

"""Addresses that are not everybody's are known as such, in every notation."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, strategies as st

from lmm.hosts import not_public

ADDRESSES = st.one_of(
    st.integers(0, 2**32 - 1).map(IPv4Address),
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.integers(0x2 << 124, (0x4 << 124) - 1).map(IPv6Address),
    st.integers(0, 2**48 - 1).map(lambda n: IPv6Address(0xFFFF << 32 | (n & 0xFFFFFFFF))),
    st.sampled_from([0x7F << 24, 0x0A << 24, 0xA9FE << 16, 0xC0A8 << 16, 0xE0 << 24]).flatmap(
        lambda start: st.integers(start, start + 0xFFFF).map(IPv4Address)
    ),
)


@given(ADDRESSES)
def test_what_the_standard_library_takes_for_private_is_refused(address: IPv4Address | IPv6Address) -> None:
    inner = getattr(address, "ipv4_mapped", None) or address
    if not inner.is_global or inner.is_multicast or inner.is_reserved:
        assert not_public(str(address))


@given(st.integers(0, 2**32 - 1))
def test_an_address_in_other_clothes_is_the_same(number: int) -> None:
    """Mapped and translated notations of an IPv4 address are as public as it is."""
    plain = not_public(str(IPv4Address(number)))
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        assert not_public(str(IPv6Address(prefix | number))) == plain


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("127.0.0.1", "this machine"),
        ("0.0.0.0", "this machine"),
        ("::", "this machine"),
        ("::1", "this machine"),
        ("10.0.0.1", "a private network"),
        ("172.31.255.255", "a private network"),
        ("192.168.1.1", "a private network"),
        ("100.100.100.200", "a provider's own network"),  # metadata of Alibaba's cloud
        ("169.254.169.254", "the local link"),  # metadata of most others
        ("168.63.129.16", "a cloud's metadata"),
        ("fd00:ec2::254", "a private network"),
        ("fe80::1%eth0", "the local link"),
        ("::ffff:169.254.169.254", "the local link"),
        ("64:ff9b::a9fe:a9fe", "the local link"),
        ("64:ff9b:1::1", "reserved"),
        ("2002:7f00:1::", "an IPv4 address in another form"),
        ("2001::1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("2001:db8::1", "reserved for documentation"),
    ],
)
def test_what_they_are(address: str, what: str) -> None:
    assert not_public(address) == what


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101", "172.32.0.1"]
)
def test_public_ones(address: str) -> None:
    assert not_public(address) == ""
    assert ip_address(address)


@pytest.mark.parametrize("text", ["localhost", "", "1.2.3", "0x7f.1"])
def test_names_are_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        not_public(text)

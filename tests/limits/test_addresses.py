"""Addresses that must not be contacted for others."""

from ipaddress import ip_network

import pytest

from assaymark.limits.addresses import NotPublic, checked_addresses, why_not_public


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("169.254.1.1", "link-local"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "private|reserved"),
        ("255.255.255.255", "private|reserved"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "metadata"),
        ("fd12::1", "private"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "IPv6 form of 127.0.0.1, a loopback"),
        ("::ffff:169.254.169.254", "IPv6 form of 169.254.169.254, the address of a cloud's metadata"),
        ("::127.0.0.1", "IPv6 form of 127.0.0.1"),
        ("64:ff9b::10.0.0.1", "IPv6 form of 10.0.0.1, a private"),
        ("2002:7f00:1::", "IPv6 form of 127.0.0.1"),
        ("2001:0:a00:1:0:0:f5ff:fffe", "IPv6 form of 10.0.0.1"),  # Teredo: server 10.0.0.1, client 10.0.0.1
        ("nonsense", "not an address"),
    ],
)
def test_addresses_that_are_not_public(address: str, why: str) -> None:
    """Each kind is named."""
    assert any(each in (why_not_public(address) or "") for each in why.split("|")), why_not_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_public_addresses(address: str) -> None:
    """They may be contacted, in IPv6 forms too."""
    assert why_not_public(address) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "localhost", "::1", "0"])
def test_every_form_of_this_machine_is_refused(host: str) -> None:
    """The system's resolver reads the host, so each form that a connection would read is checked as what it is."""
    with pytest.raises(NotPublic, match=r"expected a public address"):
        checked_addresses(host, 80)


def test_one_private_address_refuses_a_host() -> None:
    """Whoever answers for a name chose all of its addresses."""
    with pytest.raises(NotPublic, match=r"both\.example \(10\.0\.0\.1\) is a private address"):
        checked_addresses("both.example", 80, lambda *_: ["8.8.8.8", "10.0.0.1"])


def test_an_operators_exception() -> None:
    """Allowed networks may be contacted, and no others."""
    allowed = [ip_network("10.0.0.0/24")]
    assert checked_addresses("10.0.0.7", 80, allowed=allowed) == ("10.0.0.7",)
    with pytest.raises(NotPublic):
        checked_addresses("10.0.1.7", 80, allowed=allowed)


def test_a_name_without_addresses() -> None:
    """It is an error of the network, not a refusal."""
    with pytest.raises(OSError, match="has no address"):
        checked_addresses("nowhere.example", 80, lambda *_: [])

"""Hosts: which of them only this machine can reach."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

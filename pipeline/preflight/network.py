"""How the nodes of one engine find each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.host.reading import HostReading, Interface
from pipeline.preflight.demand import Demand
from pipeline.preflight.findings import Finding, ok, stop, warn

# The driver of ConnectX cards.
_FAST = "mlx5_core"
_ADDRESS = "VLLM_HOST_IP"
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def check_network(demand: Demand, host: HostReading) -> Iterator[Finding]:
    """For an engine on several nodes: the fast cards are up and everything is pinned to them."""
    if demand.nodes < 2:
        return
    fast = [i for i in host.interfaces if i.driver == _FAST and i.up and i.addresses]
    if fast:
        listed = ", ".join(f"{i.name} {i.addresses[0]}" for i in fast)
        yield ok("network", f"ConnectX up: {listed}")
    else:
        yield warn(
            "network",
            "no ConnectX interface is up with an IPv4 address",
            "the nodes would talk over the slow network and wait for each other at every token",
            "connect the cable and give both ends an address: ip addr show, nmcli device",
        )
    environment = {**host.environment, **demand.env}
    yield _address(environment.get(_ADDRESS), host, fast)
    for name in _INTERFACES:
        yield _interface(name, environment.get(name), host, fast)


def _address(value: str | None, host: HostReading, fast: list[Interface]) -> Finding:
    best = fast[0].addresses[0] if fast else "ADDRESS"
    cure = f"export {_ADDRESS}={best} before ray start, on each node its own"
    if value is None:
        why = "vLLM and Ray pick an address by themselves, often of the slow network"
        return warn("network", f"{_ADDRESS} is not set", why, cure)
    if value not in [address for i in host.interfaces for address in i.addresses]:
        what = f"{_ADDRESS} is {value}, which is no address of {host.node}"
        return stop("network", what, "the nodes of an engine would not find each other", cure)
    if value not in [address for i in fast for address in i.addresses]:
        what = f"{_ADDRESS} is {value}, which is not a ConnectX address"
        return warn("network", what, "the nodes would talk over the slow network", cure)
    return ok("network", f"{_ADDRESS}={value}")


def _interface(name: str, value: str | None, host: HostReading, fast: list[Interface]) -> Finding:
    best = fast[0].name if fast else "INTERFACE"
    cure = f"export {name}={best} before ray start; interfaces are named differently on each node"
    if value is None:
        why = "an interface that the other node cannot reach may be chosen, and the start hangs"
        return warn("network", f"{name} is not set", why, cure)
    if not _named(value, host.interfaces):
        what = f"{name}={value} names no interface of {host.node}"
        return stop("network", what, "the start would fail or hang", cure)
    if not _named(value, fast):
        what = f"{name}={value} names no ConnectX interface"
        return warn("network", what, "the nodes would talk over the slow network", cure)
    return ok("network", f"{name}={value}")


def _named(value: str, interfaces: tuple[Interface, ...] | list[Interface]) -> bool:
    """NCCL's own syntax: beginnings, after `=` whole names, after `^` what is not to be used."""
    names = value.lstrip("=^").split(",")
    exact = value.startswith("=")
    hit = [any(i.name == n if exact else i.name.startswith(n) for n in names) for i in interfaces]
    return not all(hit) if value.startswith("^") else any(hit)

"""Listen addresses and the file that tells a parent which ports were taken."""

from pathlib import Path

import orjson
import pytest

from services.runtime.addresses import announce_port, join_address, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":0", ("0.0.0.0", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_addresses_are_read(text: str, expected: tuple[str, int]) -> None:
    """Host and port are told apart, IPv6 brackets removed, an empty host means every interface."""
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:http", "host:65536", "host:-1", "::1:8080", "host:²"])
def test_bad_addresses_are_refused_with_the_form_expected(text: str) -> None:
    """Whatever is no address is named in the error."""
    with pytest.raises(ValueError, match="address"):
        parse_address(text)


def test_joining_brackets_ipv6_only() -> None:
    """The text form reads back as what it was made of."""
    assert join_address("::1", port=1) == "[::1]:1"
    assert join_address("10.0.0.1", port=2) == "10.0.0.1:2"


def test_ports_are_announced_together(tmp_path: Path) -> None:
    """Each server adds its port to the file; nothing is written when none is asked for."""
    target = tmp_path / "ports.json"
    announce_port("http", port=1, environ={})
    assert list(tmp_path.iterdir()) == []

    announce_port("http", port=1, environ={"PHALANX_PORT_FILE": str(target)})
    announce_port("grpc", port=2, environ={"PHALANX_PORT_FILE": str(target)})

    assert orjson.loads(target.read_bytes()) == {"http": 1, "grpc": 2}
    assert list(tmp_path.iterdir()) == [target]

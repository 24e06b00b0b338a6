"""Where a server without certificates may listen."""

import pytest

from services.runtime.lifecycle import _settings_problems
from services.runtime.rpc_access import RpcAccess, is_loopback
from services.runtime.settings import SettingsError


@pytest.mark.parametrize("address", ["127.0.0.1:50051", "[::1]:0", "localhost:1", "127.8.0.1:1"])
def test_this_machine_needs_no_certificates(address: str) -> None:
    """For the sandbox, tests and port-forwards."""
    RpcAccess().check_address(address)


@pytest.mark.parametrize("address", ["0.0.0.0:50051", ":50051", "[::]:50051", "10.0.0.1:1", "placer.example.com:1"])
def test_whatever_others_reach_does(address: str) -> None:
    """The message names the setting, what was given, and both ways out."""
    with pytest.raises(SettingsError, match=r"PHALANX_GRPC_ADDRESS.*set PHALANX_TLS_DIR .* or listen on 127\.0\.0\.1"):
        RpcAccess().check_address(address)


def test_a_name_is_nobody_we_know() -> None:
    """Where it leads is decided by somebody else, later."""
    assert not is_loopback("localhost.example.com")


def test_wrong_settings_are_found_in_groups_of_tasks() -> None:
    """A service that opens several things at once wraps the error; the exit code must say settings all the same."""
    wrong = SettingsError(["a"])
    assert _settings_problems(ExceptionGroup("x", [ExceptionGroup("y", [wrong]), SettingsError(["b"])])) == ["a", "b"]
    assert _settings_problems(ExceptionGroup("x", [wrong, ValueError("c")])) is None
    assert _settings_problems(None) is None

"""Settings: typed from the environment, every mistake told at once, documented from the source."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from services.runtime.settings import (
    CommonSettings,
    GrpcSettings,
    SettingDoc,
    SettingsError,
    address,
    bounded,
    choice,
    describe,
    load,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example(CommonSettings):
    """One field of each kind."""

    cluster: str
    """Name of the cluster; has no default."""

    shards: int = bounded(4, minimum=1, maximum=64)
    """How many loops share the work."""

    ratio: float = 0.5
    dry_run: bool = False
    kinds: tuple[str, ...] = ("pods", "nodes")
    """Kinds to follow."""

    limit: int | None = None
    state: Path = Path("state")
    mode: str = choice("fast", options=("fast", "careful"))
    listen: str = address("0.0.0.0:9000")
    api_token: int = 0


def test_defaults_need_nothing_but_the_required() -> None:
    """An environment with only the required variable gives the declared defaults."""
    settings = load(Example, {"PHALANX_CLUSTER": "a", "HOME": "/somewhere"})

    assert settings.cluster == "a"
    assert settings.shards == 4
    assert settings.kinds == ("pods", "nodes")
    assert settings.nats_url == "nats://127.0.0.1:4222"
    assert settings.trace_file is None
    assert settings.instance


def test_every_type_is_read() -> None:
    """Each supported type is parsed from text."""
    settings = load(
        Example,
        {
            "PHALANX_CLUSTER": "a",
            "PHALANX_SHARDS": " 8 ",
            "PHALANX_RATIO": "1e-3",
            "PHALANX_DRY_RUN": "True",
            "PHALANX_KINDS": "pods, claims ,",
            "PHALANX_LIMIT": "7",
            "PHALANX_STATE": "elsewhere/state",
            "PHALANX_MODE": "careful",
            "PHALANX_LISTEN": "[::1]:0",
            "PHALANX_TRACE_FILE": "spans.jsonl",
        },
    )

    assert (settings.shards, settings.ratio, settings.dry_run, settings.limit) == (8, 0.001, True, 7)
    assert settings.kinds == ("pods", "claims")
    assert settings.state == Path("elsewhere/state")
    assert settings.mode == "careful"
    assert settings.trace_file == Path("spans.jsonl")


def test_empty_means_unset_for_an_optional() -> None:
    """A manifest that leaves an optional variable empty gets None."""
    assert load(Example, {"PHALANX_CLUSTER": "a", "PHALANX_LIMIT": "", "PHALANX_TRACE_FILE": ""}).limit is None


def test_all_problems_are_told_at_once() -> None:
    """The error lists every variable at fault with what was given and what was expected."""
    with pytest.raises(SettingsError) as caught:
        load(
            Example,
            {
                "PHALANX_SHARDS": "65",
                "PHALANX_RATIO": "nan",
                "PHALANX_DRY_RUN": "maybe",
                "PHALANX_LIMIT": "many",
                "PHALANX_STATE": "",
                "PHALANX_MODE": "slow",
                "PHALANX_LISTEN": "9000",
                "PHALANX_NATS_URI": "nats://x",
            },
        )

    assert set(caught.value.problems) == {
        "PHALANX_CLUSTER: not set, expected text; this setting has no default",
        "PHALANX_SHARDS: given '65', expected whole number of at least 1 and at most 64",
        "PHALANX_RATIO: given 'nan', expected number",
        "PHALANX_DRY_RUN: given 'maybe', expected true or false",
        "PHALANX_LIMIT: given 'many', expected whole number or empty",
        "PHALANX_STATE: given '', expected path",
        "PHALANX_MODE: given 'slow', expected one of fast, careful",
        "PHALANX_LISTEN: given '9000', expected HOST:PORT",
        "PHALANX_NATS_URI: given 'nats://x', no such setting; did you mean PHALANX_NATS_URL?",
    }
    assert all(problem in str(caught.value) for problem in caught.value.problems)


def test_a_secret_is_not_repeated() -> None:
    """A bad value of a secret-looking variable stays out of the message."""
    with pytest.raises(SettingsError) as caught:
        load(Example, {"PHALANX_CLUSTER": "a", "PHALANX_API_TOKEN": "hunter2"})

    assert "PHALANX_API_TOKEN" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_variables_of_others_are_left_alone() -> None:
    """Sandbox variables, those that one environment shares and names that the caller knows are no mistakes."""
    environ = {"PHALANX_SANDBOX_PORT": "1", "PHALANX_DEMO": "1", "PHALANX_CLUSTER": "a"}
    environ |= dict.fromkeys(("PHALANX_KUBECONFIG", "PHALANX_PLACER"), "x")

    assert load(Example, environ, known_elsewhere=("PHALANX_DEMO",)).cluster == "a"
    with pytest.raises(SettingsError, match="PHALANX_DEMO"):
        load(Example, environ)


def test_the_reference_comes_from_the_source() -> None:
    """Rows give variable, type, default and the string below each field, inherited ones first."""
    rows = {row.variable: row for row in describe(Example)}

    assert rows["PHALANX_SHARDS"] == SettingDoc(
        variable="PHALANX_SHARDS",
        type="whole number of at least 1 and at most 64",
        default="4",
        doc="How many loops share the work.",
    )
    assert rows["PHALANX_CLUSTER"].default == "(required)"
    assert rows["PHALANX_KINDS"].default == "pods,nodes"
    assert rows["PHALANX_DRY_RUN"].default == "false"
    assert rows["PHALANX_TRACE_FILE"].default == ""
    assert rows["PHALANX_INSTANCE"].default == "(computed)"
    assert next(iter(rows)) == "PHALANX_NATS_URL"


def test_every_common_setting_is_documented() -> None:
    """No shared setting lacks the text that the reference prints."""
    assert [row.variable for row in describe(GrpcSettings) if not row.doc] == []


def test_services_of_the_same_name_are_no_settings() -> None:
    """The kubelet tells each pod about Services of its namespace, in variables that happen to have our prefix."""
    told = {
        "PHALANX_PLACER_SERVICE_HOST": "10.0.0.7",
        "PHALANX_PLACER_SERVICE_PORT": "50051",
        "PHALANX_PLACER_SERVICE_PORT_GRPC": "50051",
        "PHALANX_PLACER_PORT": "tcp://10.0.0.7:50051",
        "PHALANX_PLACER_PORT_50051_TCP_ADDR": "10.0.0.7",
    }
    assert load(CommonSettings, told)
    with pytest.raises(SettingsError, match="PHALANX_BINDER_PORT"):
        load(CommonSettings, told | {"PHALANX_BINDER_PORT": "50051"})

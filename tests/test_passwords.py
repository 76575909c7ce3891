"""No user or password of an address in what is said or kept."""

import pytest

from pipeline.config import read_command_line
from pipeline.errors import InputError, PipelineError
from pipeline.passwords import without_password
from pipeline.provenance import _without_passwords
from pipeline.tracking.address import store_uri


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgresql://me:SECRET@host/db", "postgresql://host/db"),
        ("postgresql+psycopg2://me:SE/CRET@host/db", "postgresql+psycopg2://host/db"),
        ("postgresql://me:SE@CR@ET@host/db", "postgresql://host/db"),
        ("postgresql://me:12/SECRET@host/db", "postgresql://host/db"),
        ("tracking/postgresql:/me:SECRET@host", "tracking/postgresql:/host"),
        (
            "postgresql://host/db?user=me&password=SECRET&a=b",
            "postgresql://host/db?user=&password=&a=b",
        ),
        (
            "mysql://host/db?ssl=1&sslPassword=SECRET failed",
            "mysql://host/db?ssl=1&sslPassword= failed",
        ),
        ("https://SECRET@host/x and http://me:SECRET@host2/y", "https://host/x and http://host2/y"),
    ],
)
def test_an_address_is_left_without_its_login(text: str, left: str) -> None:
    assert without_password(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////data/a@b/mlflow.db",
        "https://host:8080/runs",
        "http://127.0.0.1:9: refused, ask admin@example.org",
        "mail me@example.org: it failed",
        "https://hub/model@main",
        "https://hub/model?revision=main&username=x",
    ],
)
def test_what_holds_no_login_stays_as_it_is(text: str) -> None:
    assert without_password(text) == text


def test_no_part_of_an_error_holds_a_login() -> None:
    uri = "postgresql://me:SE/CRET@host/db"
    error = PipelineError(f"'{uri}' fails", where=uri, allowed=uri, remedy=f"try {uri}")
    assert "SE" not in f"{error} {error.problem} {error.where} {error.allowed} {error.remedy}"
    assert str(error).count("postgresql://host/db") == 4


@pytest.mark.parametrize("password", ["S!ECRET", "S ECRET", "S(ECRET", "S,ECRET", "S'ECRET"])
@pytest.mark.parametrize("key", ["tracking.uri", "tracking", "+tracking", "tracking.uri.x"])
def test_a_command_line_that_is_refused_does_not_repeat_its_password(
    key: str, password: str
) -> None:
    arguments = ["+sweep=smoke", f"{key}=postgresql://me:{password}@host/db", "dataset=[]"]
    with pytest.raises(InputError) as caught:
        read_command_line(arguments, lambda: "cpu")
    assert "ECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:SE/CRET@host/db",
        "postgresql://me:12/SECRET@host/db",
        "http://[host",
        "mysql://",
    ],
)
def test_a_store_whose_place_cannot_be_read_is_refused_with_how_to_write_it(uri: str) -> None:
    with pytest.raises(InputError, match="written as %XX") as caught:
        store_uri(uri)
    assert "SE" not in str(caught.value)


def test_an_address_given_for_an_option_s_name_is_told_where_it_belongs() -> None:
    with pytest.raises(InputError, match=r"tracking: .* write tracking\.uri=ADDRESS"):
        read_command_line(["+sweep=smoke", "tracking=postgresql://host/db"], lambda: "cpu")


def test_a_password_in_the_configuration_is_not_kept_whatever_it_holds() -> None:
    kept = _without_passwords({"a": ["x", {"uri": 'mysql://me:SE"CR\\ET@host/db'}], "n": 1})
    assert kept == {"a": ["x", {"uri": "mysql://host/db"}], "n": 1}

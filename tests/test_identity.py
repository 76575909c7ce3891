import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from pipeline.identity import canonical_json, file_digest, fingerprint

scalars = st.none() | st.booleans() | st.integers() | st.text(
    st.characters(exclude_categories=["Cs"])
)  # fmt: skip
values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def test_canonical_json_sorts_keys_and_holds_no_blanks() -> None:
    assert canonical_json({"b": [1, None], "a": {"é": True}}) == '{"a":{"é":true},"b":[1,null]}'


@given(values)
def test_canonical_json_reads_back_as_the_same_value(value: JsonValue) -> None:
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), scalars))
def test_the_order_of_keys_does_not_count(value: dict[str, JsonValue]) -> None:
    assert fingerprint(dict(reversed(value.items()))) == fingerprint(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([1, 2], [2, 1], id="the order of a list"),
        pytest.param({"a": 1}, {"a": "1"}, id="a number and its text"),
        pytest.param({"a": None}, {}, id="null and nothing"),
        pytest.param({"a": True}, {"a": 1}, id="a switch and a number"),
        pytest.param("a", "A", id="the case of a letter"),
    ],
)
def test_what_differs_has_another_fingerprint(one: JsonValue, other: JsonValue) -> None:
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        fingerprint({"a": value})


def test_a_fingerprint_is_the_sha256_of_the_canonical_text() -> None:
    assert fingerprint({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()
    # Pinned, since records of earlier versions are found by it.
    assert fingerprint({"a": 1}).startswith("015abd7f5cc57a2d")


def test_a_files_digest_is_over_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"\x00\xff" * 100_000)
    assert file_digest(file) == hashlib.sha256(b"\x00\xff" * 100_000).hexdigest()

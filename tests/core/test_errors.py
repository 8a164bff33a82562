"""Passwords that no message may show, and text that is safe to print."""

from __future__ import annotations

import pytest

from ablate.core.errors import UserError, hide_secrets, keep_secret
from ablate.core.file_names import checked_name
from ablate.core.plain_text import plain


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://host/db?user=me&password=hunter2",
        "http://host:5000/?password=hunter2 is away",
        "http://host/?PASSWORD=hunter2&x=1",
        "http://host/?sslpassword=hunter2",
        "http://host/?access_token=hunter2",
        "http://host/?passwd=hunter2",
        "s3://bucket/x?X-Amz-Signature=hunter2",
        "https://host/?api_key=hunter2",
        'http://host/?password=it\'s-"hunter2"',
        "postgresql://me:p@hunter2@host/db",
        "https://hunter2@host/",
        "//me:hunter2@host:6379",
        "http://host/?access_key=hunter2",
        "http://host/?auth=hunter2",
        "https://host/?sig=hunter2&x=1",
        "host=db password='a hunter2' dbname=x",
        "Authorization: Bearer hunter2",
        "{'Authorization': 'Basic hunter2'}",
        '{"password": "a hunter2"}',
    ],
)
def test_a_password_in_a_url_is_hidden(text: str) -> None:
    assert "hunter2" not in hide_secrets(text)
    assert "***" in hide_secrets(text)


def test_a_kept_password_is_hidden_wherever_it_stands() -> None:
    keep_secret("http://host/?user=me&token=swordfish%21")
    assert hide_secrets("the server does not take swordfish!") == "the server does not take ***"


def test_secrets_of_the_environment_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "swordfish")
    monkeypatch.setenv("PGPASSWORD", "a")  # hiding it would take words apart
    assert hide_secrets("a token swordfish was refused") == "a token *** was refused"


def test_other_text_stays_as_it_is() -> None:
    for text in (
        "study a/quick: --tracking-uri http://host:5000 (see ablate --help)",
        "unexpected token: x; author=me, password: none given",
        "postgresql://me@host/db and ray://head:10001",
    ):
        assert hide_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, χ = 0.995 ± 0.001\n\tand more", "plain, χ = 0.995 ± 0.001\n\tand more"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\x9b2J\r", r"\x9b2J\x0d"),
        ("\ud800 \u2028 \U000e0001", r"\ud800 \u2028 \U000e0001"),
    ],
)
def test_control_characters_are_spelt_out(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("name", ["digits-adls", "a study", "größe_2", "v1.2"])
def test_good_names_pass(name: str) -> None:
    assert checked_name(name, "its name") == name


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", ".hidden", "/etc", "a/b", "..\\b", "a\nb", "\u202ea", "x" * 300, 3]
)
def test_names_that_lead_elsewhere_are_refused(name: object) -> None:
    with pytest.raises(UserError, match="its name"):
        checked_name(name, "its name")

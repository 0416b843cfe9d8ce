"""An entry of the gallery becomes plain code in the library, with the chosen settings in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.base.errors import BackendError
from backend.records.library.gallery import CardSetting
from backend.records.library.item import Kind
from backend.services.context.container import Services, open_services
from backend.services.library.gallery import with_constants


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    services = open_services(tmp_path / "root", tmp_path / "catalogue.sqlite")
    yield services
    services.close()


def code_of(services: Services, kind: Kind, reference: str) -> str:
    name, _, version = reference.partition("@")
    folder = services.data_root.path / kind.folder / name / f"v{version}" / kind.content
    return (folder / kind.entry_file).read_text()


def test_an_entry_is_added_as_code_with_its_settings_as_constants(services: Services) -> None:
    item = services.gallery.add("lenet-5", {"classes": "26", "channels": "3"}, "letters")
    code = code_of(services, Kind.MODEL, item.reference)
    assert item.name == "letters"
    assert "\nCLASSES = 26\nCHANNELS = 3\nSIDE = 28\n" in code
    assert item.files == 1, "neither its card nor its figures"
    second_item = services.gallery.add("lenet-5", {"classes": "26", "channels": "3"}, "letters")
    assert second_item.reference == item.reference


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": "0"}, "classes must be a whole number from 2 to 100000, not “0”"),
        ({"classes": "ten"}, "classes must be a whole number from 2 to 100000, not “ten”"),
        ({"classes": "1e3"}, "classes must be a whole number"),
        ({"channels": "2"}, "channels must be 1 or 3, not “2”"),
        ({"side": "9"}, "side must be a whole number from 16 to 256, not “9”"),
        ({"sides": "28"}, r"no setting “sides” \(did you mean side\?\)\."),
        ({"depth": "3"}, "no setting “depth”: it has classes, channels, side\\."),
    ],
)
def test_a_setting_that_the_entry_cannot_take_adds_nothing(
    services: Services, settings: dict[str, str], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        services.gallery.add("lenet-5", settings)
    assert not services.library.list(Kind.MODEL)


@pytest.mark.parametrize("name", ["lenet", "../models/lenet-5", "", ".", "lenet-5/"])
def test_an_entry_that_does_not_exist_is_named(services: Services, name: str) -> None:
    with pytest.raises(BackendError, match="The gallery has no"):
        services.gallery.show(name)


def test_each_name_of_the_gallery_is_of_one_entry_and_each_setting_is_a_constant(
    services: Services, tmp_path: Path
) -> None:
    entries = services.gallery.list()
    assert len({e.name for e in entries}) == len(entries) > 0
    for e in entries:
        item = services.gallery.add(e.name, {})
        assert item.kind is e.kind
        for name, setting in e.card.settings.items():
            assert setting.is_valid(setting.default), f"{e.name}: {name}"


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [(1, "7", 7), (0.5, "2", 2.0), (True, "False", False), ("relu", "tanh", "tanh")],
)
def test_a_value_has_the_type_of_the_default(default: object, text: str, value: object) -> None:
    assert CardSetting("x", default).parse("x", text) == value


@pytest.mark.parametrize(
    ("setting", "valid"),
    [
        (CardSetting("x", 1, minimum=1, maximum=1_000_000), "a whole number from 1 to 1000000"),
        (CardSetting("x", 0.5, minimum=0, maximum=0.9), "a number from 0 to 0.9"),
        (CardSetting("x", 1, minimum=2), "a whole number from 2 on"),
        (CardSetting("x", 1.5), "a number"),
        (CardSetting("x", "a", ("a", "b")), "a or b"),
        (CardSetting("x", False), "true or false"),
    ],
)
def test_the_valid_values_of_a_setting_are_described_in_words(
    setting: CardSetting, valid: str
) -> None:
    assert setting.valid_text() == valid


def test_a_constant_is_replaced_where_it_stands_and_nowhere_else() -> None:
    source = "A = 1  # ü A = 1\nif A:\n    A = 3\nB: str = 'x'\n"
    assert with_constants(source, {"a": 2, "b": "it's"}) == (
        'A = 2  # ü A = 1\nif A:\n    A = 3\nB: str = "it\'s"\n'
    )
    with pytest.raises(ValueError, match="no constant C"):
        with_constants(source, {"c": 1})


def test_an_entry_is_written_with_its_parts_into_a_plain_folder(
    services: Services, tmp_path: Path
) -> None:
    entry = services.gallery.write("tiny-cifar-10", {"activation": "tanh"}, tmp_path / "code")
    names = {path.name for path in (tmp_path / "code").iterdir()}
    assert names == {"bks_model.py", *entry.card.parts}
    assert '\nACTIVATION = "tanh"\n' in (tmp_path / "code/bks_model.py").read_text().replace(
        "'", '"'
    )
    with pytest.raises(BackendError, match="activation must be relu, leaky"):
        services.gallery.write("tiny-cifar-10", {"activation": "step"}, tmp_path / "other")
    assert not (tmp_path / "other").exists()

# SPDX-License-Identifier: MIT
"""The source tree is consistent: names are unique, and docs/architecture.md names existing files."""
import collections
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
ARCHITECTURE = (SOURCE / "docs/architecture.md").read_text()
DEFINITION = re.compile(r"^(?:static )?(?:const )?(?:struct|enum|union) (\w+) \{", re.MULTILINE)


def sources():
    return sorted(path for place in ("include", "src", "workers", "python/src") for path in (SOURCE / place).rglob("*.[ch]"))


def test_a_struct_tag_has_one_meaning_in_the_whole_tree():
    # Tags of structs, enums and unions share one name space in C.
    places = collections.defaultdict(list)
    for path in sources():
        for tag in DEFINITION.findall(path.read_text()):
            places[tag].append(str(path.relative_to(SOURCE)))
    assert len(places) > 100
    assert {tag: where for tag, where in places.items() if len(where) > 1} == {}


def test_file_names_are_unique_within_a_module():
    places = collections.defaultdict(list)
    for path in sources():
        if path.is_relative_to(SOURCE / "src"):
            module = path.relative_to(SOURCE / "src").parts[0]
            places[module, path.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_architecture_names_files_that_exist():
    files = [str(path.relative_to(SOURCE)) for path in sources()]
    named = set(re.findall(r"`([\w/]+\.[ch])`", ARCHITECTURE))
    assert len(named) > 30
    assert {name for name in named if not any(("/" + file).endswith("/" + name) for file in files)} == set()


def test_architecture_draws_functions_in_the_files_that_define_them():
    # Drawings name calls as "FILE FUNCTION()" and copies of options as "FUNCTION(), FILE"; every file must exist.
    drawings = "".join(ARCHITECTURE.split("```")[1::2])
    hops = re.findall(r"([\w/]+\.[ch]) +(\w+)\(\)", drawings)
    hops += [(file, function) for function, file in re.findall(r"(\w+)\(\), ([\w/]+\.[ch])", drawings)]
    assert len(hops) > 80
    files = {"/" + str(path.relative_to(SOURCE)): path.read_text() for path in sources()}
    wrong = []
    for name, function in hops:
        texts = [text for file, text in files.items() if file.endswith("/" + name)]
        definition = re.compile(rf"^\w[^;{{}}=]*?\b{function}\([^;{{}}]*\)\n\{{", re.MULTILINE)
        if not any(definition.search(text) for text in texts):
            wrong.append((name, function))
    assert wrong == []
    named = set(re.findall(r"[\w/]+\.[ch]\b", drawings))
    assert {name for name in named if not any(file.endswith("/" + name) for file in files)} == set()


def test_architecture_lists_every_module_and_part():
    tree = ARCHITECTURE.split("## Modules", 1)[1].split("```", 2)[1]
    listed = set(re.findall(r"^src/(\w+)/", tree, re.MULTILINE))
    assert listed == {path.name for path in (SOURCE / "src").iterdir() if path.is_dir()}
    for module in ("queue", "view"):
        parts = {path.name for path in (SOURCE / "src" / module).iterdir() if path.is_dir()}
        block = tree.split(f"src/{module}/", 1)[1].split("\nsrc/", 1)[0]
        assert {part for part in parts if f"{part}/" not in block} == set()

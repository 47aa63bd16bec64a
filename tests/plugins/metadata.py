"""Checks of a distribution's metadata, which package indexes show."""

import email
import re
import tarfile
import zipfile

# The licenses of distributions that bundle parts of other projects.
BUNDLED = dict.fromkeys(("plugrad-cpu", "plugrad-wasm"), "Apache-2.0 AND MIT")
LABELS = {"Homepage", "Documentation", "Changelog", "Issues"}


def read_wheel(path):
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def read_sdist(path):
    """Return the metadata of an sdist, and the names of its files."""
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        (info,) = (m for m in archive if re.fullmatch("[^/]*/PKG-INFO", m.name))
        return email.message_from_binary_file(archive.extractfile(info)), names


def metadata_problems(metadata):
    """Return the metadata that a package index would show wrongly or not at all."""
    readme = metadata.get_payload()
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    relative = re.findall(r"\]\((?!https://)([^)]*)\)", readme)
    checks = {
        "the readme does not begin with the name": readme.startswith(
            f"# {metadata['Name']}\n"
        ),
        "the readme has no example": "```python\n" in readme,
        f"relative links in the readme: {relative}": not relative,
        "the readme is not declared as Markdown": (
            metadata["Description-Content-Type"] == "text/markdown"
        ),
        f"URLs: {urls}": {*urls} == LABELS
        and all(url.startswith("https://") for url in urls.values()),
        "the license is not Apache-2.0 and those of bundled projects": (
            metadata["License-Expression"]
            == BUNDLED.get(metadata["Name"], "Apache-2.0")
        ),
        "LICENSE is not named": "LICENSE" in metadata.get_all("License-File"),
        "license files of bundled projects are missing": (
            (len(metadata.get_all("License-File")) > 1) == (metadata["Name"] in BUNDLED)
        ),
    }
    return [problem for problem, right in checks.items() if not right]

"""Translation catalogues (foundation/locale): updated from the texts in templates and code, and compiled, by `make words`.

A new text has no translation until it is added to the .po files; tests/repo/test_languages.py reports it.
"""

import io
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from foundation.web.languages import DOMAIN, LOCALE, TRANSLATED_LANGUAGES

ROOT = Path(__file__).parents[2]
PACKAGES = ("foundation", "databroker", "authorize", "authenticate", "proxy", "gateproject")
# How babel extracts the texts of code and templates: (files, extractor), and the functions that take a text.
SOURCES = (
    ([("**.py", "python")], {"Message": None, "Sentence": None}),
    ([("foundation/templates/**.html", "jinja2")], {"_": None, "gettext": None, "ngettext": (1, 2)}),
)


@cache
def texts() -> Catalog:
    """Return every translatable text, with the files that contain it."""
    found = Catalog()
    for methods, keywords in SOURCES:
        for file, _, text, _, _ in extract_from_dir(ROOT, methods, keywords=keywords, directory_filter=_is_product_file):
            found.add(text, locations=[(file, None)])
    return found


def _is_product_file(directory: str) -> bool:
    return Path(directory).relative_to(ROOT).parts[0] in PACKAGES


def catalogue_path(language: str, ending: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.{ending}"


def written(language: str) -> Catalog:
    """Return the catalogue in the .po file."""
    with catalogue_path(language, "po").open("rb") as file:
        return read_po(file, locale=language)


def compiled(catalogue: Catalog) -> bytes:
    made = io.BytesIO()
    catalogue.creation_date = catalogue.revision_date = datetime(2026, 1, 1, tzinfo=UTC)  # reproducible
    write_mo(made, catalogue)
    return made.getvalue()


def renewed(language: str) -> Catalog:
    """Return a catalogue with the current texts in the order of their files, and the existing translations."""
    known, made = written(language), Catalog(locale=language, header_comment=f"# Texts of our pages in {language}.", fuzzy=False)
    for message in sorted(texts(), key=lambda message: (sorted(message.locations), str(message.id))):
        if message.id:
            found = known.get(message.id)
            made.add(message.id, found.string if found else "", locations=sorted(set(message.locations)))
    return made


def po(catalogue: Catalog) -> bytes:
    """Return the content of the .po file, without dates and line numbers."""
    made = io.BytesIO()
    write_po(made, catalogue, width=0, omit_header=True, include_lineno=False)
    forms = f'"Plural-Forms: {catalogue.plural_forms}\\n"\n'
    header = f'# Texts of our pages ({catalogue.locale}); `make words` keeps and compiles them.\nmsgid ""\nmsgstr ""\n'
    return f'{header}"Language: {catalogue.locale}\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n{forms}\n'.encode() + made.getvalue()


def main() -> None:
    for language in TRANSLATED_LANGUAGES:
        made = renewed(language)
        catalogue_path(language, "po").write_bytes(po(made))
        catalogue_path(language, "mo").write_bytes(compiled(written(language)))
        missing = [str(message.id) for message in made if message.id and not message.string]
        print(f"{language}: {len(made)} texts, {len(missing)} not translated", file=sys.stderr)


if __name__ == "__main__":
    main()

"""Keys of the specification that this release does not have yet, declared as they will be.

Naming one is an error: ignoring `autocert`, say, would leave the operator believing in what does not happen.  Whoever builds a key
moves its field from here to its group.
"""

from pydantic import Field

from gateproject.config.fields import Bool, FilePath
from gateproject.config.validation import Settings


class UnbuiltSettings(Settings):
    autocert: Bool = Field(False, description="Gets and renews certificates from a public authority (ACME).", examples=[True])
    autocert_dir: FilePath | None = Field(
        None,
        description="Where certificates are kept, shared between services.",
        examples=["/data/autocert"],
        json_schema_extra={"when_unset": "`$XDG_DATA_HOME/gate`, else `~/.local/share/gate`"},
    )
    autocert_must_staple: Bool = Field(False, description="Asks for certificates with the Must-Staple extension.", examples=[True])
    autocert_use_staging: Bool = Field(False, description="Uses the authority's staging environment.", examples=[True])


SETTINGS = tuple(UnbuiltSettings.attributes())

"""Keys of the specification that a release does not have yet are declared here, as they will be: at the moment there are none.

Naming one is an error: ignoring it would leave the operator believing in what does not happen.  Whoever builds a key moves its field from
here to its group.
"""

from gateproject.config.validation import Settings


class UnbuiltSettings(Settings):
    pass


SETTINGS = tuple(UnbuiltSettings.attributes())

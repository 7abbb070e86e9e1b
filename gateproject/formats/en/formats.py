"""Date formats, read by Django (FORMAT_MODULE_PATH); `e` is the name of the zone."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y, H:i:s e"

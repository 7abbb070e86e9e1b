"""Date formats for Django (FORMAT_MODULE_PATH); `e` is the name of the time zone."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y, H:i:s e"

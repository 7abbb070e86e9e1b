#!/bin/sh
# Chromium without the windows that nobody sees; it opens a page at once, as chromedriver expects of a browser.
exec /usr/lib/chromium/chromium-headless-shell "$@" data:,

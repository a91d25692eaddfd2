"""The browser in which tests open pages: Debian's Chromium, if it is installed."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

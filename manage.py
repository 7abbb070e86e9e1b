#!/usr/bin/env python
"""The command line: run gate, check a configuration, manage what it keeps."""

import sys

from gateproject.command import manage

if __name__ == "__main__":
    manage(sys.argv)

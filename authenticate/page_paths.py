"""Paths of the pages of the authenticate host that several modules link to."""

SIGN_IN_PATH = "/.gate/sign_in"
ACCESS_PATH = "/.gate/access"
SESSIONS_PATH = "/.gate/sessions"
BACKCHANNEL_LOGOUT_PATH = "/.gate/backchannel_logout"
FRONTCHANNEL_LOGOUT_PATH = "/.gate/frontchannel_logout"

"""The web chat and the HTTP API (extra ``web``)."""

from lmm_education.web.app import create_app

__all__ = ["create_app"]

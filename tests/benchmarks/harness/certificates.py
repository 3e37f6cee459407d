"""A certificate for the TLS rows: an authority of its own, made anew in every run."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopcore_bench.process import NotInstalledError


@dataclass(frozen=True, slots=True)
class Certificates:
    """Two PEM files: the server's key and chain, and the authority that the client trusts."""

    server: Path
    authority: Path


def make_certificates(into: Path) -> Certificates:
    """Write both files, for `localhost`. Raises NotInstalledError without trustme."""
    try:
        trustme: Any = importlib.import_module("trustme")
    except ModuleNotFoundError:
        raise NotInstalledError("TLS rows need trustme in the environment of the harness") from None
    found = Certificates(into / "server.pem", into / "authority.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(found.authority))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(found.server))
    return found

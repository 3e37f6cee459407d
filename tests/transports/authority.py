"""A certificate authority for tests: trustme's, or where that cannot be installed one by the program `openssl`.

trustme stands on cryptography, whose wheels leave out some interpreters (free-threaded 3.13, new versions of PyPy).
The stand-in has what the tests use of trustme, under the same names.
"""

import ipaddress
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

OPENSSL = shutil.which("openssl")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class _Pem:
    def __init__(self, text: str) -> None:
        self._text = text

    def write_to_path(self, path: str | Path) -> None:
        Path(path).write_text(self._text, encoding="ascii")


class _IssuedCert:
    """A certificate with its key."""

    def __init__(self, pem: str) -> None:
        self.private_key_and_cert_chain_pem = _Pem(pem)

    def configure_cert(self, context: ssl.SSLContext) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "leaf.pem")
            self.private_key_and_cert_chain_pem.write_to_path(path)
            context.load_cert_chain(path)


class _Authority:
    """Makes its own certificate, and with it others."""

    def __init__(self) -> None:
        self._key, self._certificate = _made("/CN=loopcore tests", "basicConstraints=critical,CA:TRUE")

    def configure_trust(self, context: ssl.SSLContext) -> None:
        context.load_verify_locations(cadata=self._certificate)

    def issue_cert(self, *names: str) -> _IssuedCert:
        alternatives = ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in names)
        with tempfile.TemporaryDirectory() as folder:
            signer = Path(folder, "signer.pem")
            signer.write_text(self._certificate + self._key, encoding="ascii")
            by = ("-CA", str(signer), "-CAkey", str(signer))
            key, certificate = _made(f"/CN={names[0]}", f"subjectAltName={alternatives}", *by)
        return _IssuedCert(key + certificate)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _made(subject: str, extension: str, *options: str) -> tuple[str, str]:
    """Return the key and the certificate, as PEM, that `openssl req` makes."""
    assert OPENSSL is not None
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder, "key.pem"), Path(folder, "certificate.pem")
        subprocess.run(
            (OPENSSL, "req", "-x509", *KEY, "-subj", subject, "-addext", extension, *options, "-keyout", key, "-out",
             certificate),
            check=True,
            capture_output=True,
        )  # fmt: skip
        return key.read_text(encoding="ascii"), certificate.read_text(encoding="ascii")


if TYPE_CHECKING:
    from trustme import CA, LeafCert
else:
    try:
        from trustme import CA, LeafCert
    except ImportError:
        if OPENSSL is None:
            pytest.skip("certificates need trustme or the program openssl", allow_module_level=True)
        CA, LeafCert = _Authority, _IssuedCert

CA()  # cryptography keeps the class `datetime.datetime` that it finds at first: it must not be that of a simulation

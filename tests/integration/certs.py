"""Certificates for tests, by the openssl command.

In the folder: ca.pem; one, two (for localhost and 127.0.0.1), elsewhere (for another
name), client, each NAME.pem and NAME.key by ca; stranger, by nobody.
"""
import shutil
import ssl
import subprocess
import tempfile

import harness

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
FOUND = shutil.which("openssl") is not None
HERE = "DNS:localhost,IP:127.0.0.1"


class Certs:
    def __init__(self, case):
        folder = tempfile.TemporaryDirectory(prefix="kvasir-tls-")
        case.addClassCleanup(folder.cleanup)
        self.folder = folder.name
        self.self_signed("ca")
        self.self_signed("stranger")
        for name, names in (("one", HERE), ("two", HERE), ("client", HERE),
                            ("elsewhere", "DNS:elsewhere.example")):
            self.signed(name, names)

    def openssl(self, *args):
        return subprocess.run(["openssl", *args], cwd=self.folder, check=True,
                              capture_output=True, timeout=harness.IO_TIMEOUT_S)

    def self_signed(self, name):
        self.openssl("req", "-x509", *CURVE, "-days", "2", "-subj", f"/CN={name}",
                     "-keyout", f"{name}.key", "-out", f"{name}.pem")

    def signed(self, name, names):
        with open(f"{self.folder}/names", "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\n")
        self.openssl("req", *CURVE, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                     "-out", f"{name}.csr")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                     "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")

    def path(self, file):
        return f"{self.folder}/{file}"

    def use(self, name, folder):
        """The files node.pem and node.key in the folder are those of this name."""
        for ending in ("pem", "key"):
            shutil.copy(self.path(f"{name}.{ending}"), folder / f"node.{ending}")

    def of_client(self, cert=None):
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if cert is not None:
            context.load_cert_chain(self.path(f"{cert}.pem"), self.path(f"{cert}.key"))
        return context

    def of_server(self, cert, wants=False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(f"{cert}.pem"), self.path(f"{cert}.key"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        if wants:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.path("ca.pem"))
        return context

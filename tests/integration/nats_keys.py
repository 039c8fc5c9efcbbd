"""Keys and signed claims of NATS' decentralised authentication: an operator, an account and users
of it, each made anew.

    trust = Trust()
    server = nats.Server(folder, "-c", trust.config(folder), jetstream=False)
    trust.user().write(folder / "a.creds")
"""
import base64
import json
import time

try:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
except ImportError:
    Ed25519PrivateKey = None

KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
SEED = 18 << 3
LIMITS = {"subs": -1, "data": -1, "payload": -1}
WIDE = {**LIMITS, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}


def checked(raw):
    """Base32 with its check (CRC-16/XMODEM)."""
    crc = 0
    for byte in raw:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return base64.b32encode(raw + crc.to_bytes(2, "little")).decode().rstrip("=")


def url64(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Key:
    def __init__(self, kind):
        self.kind, self.key = kind, Ed25519PrivateKey.generate()
        raw = serialization.Encoding.Raw
        public = self.key.public_key().public_bytes(raw, serialization.PublicFormat.Raw)
        secret = self.key.private_bytes(raw, serialization.PrivateFormat.Raw,
                                        serialization.NoEncryption())
        self.name = checked(bytes([KINDS[kind]]) + public)
        self.seed = checked(bytes([SEED | KINDS[kind] >> 5, (KINDS[kind] & 31) << 3]) + secret)

    def sign(self, text):
        return url64(self.key.sign(text))

    def claim(self, key, **more):
        """A JWT in which this key says what that one is."""
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"},
                 {"jti": key.name, "iat": int(time.time()), "iss": self.name, "sub": key.name,
                  "name": key.kind, "nats": {"type": key.kind, "version": 2, **more}}]
        text = ".".join(url64(json.dumps(part).encode()) for part in parts)
        return f"{text}.{self.sign(text.encode())}"


class User:
    def __init__(self, account):
        self.key = Key("user")
        self.jwt = account.claim(self.key, **LIMITS)

    def login(self, nonce):
        return {"jwt": self.jwt, "sig": self.key.sign(nonce.encode())}

    def write(self, file, seed=None):
        file.write_text(f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
                        f"-----BEGIN USER NKEY SEED-----\n{seed or self.key.seed}\n"
                        "------END USER NKEY SEED------\n")
        return file


class Trust:
    def __init__(self):
        self.operator, self.account = Key("operator"), Key("account")

    def config(self, folder):
        file = folder / "nats.conf"
        said = self.operator.claim(self.account, limits=WIDE)
        file.write_text(f"operator: {self.operator.claim(self.operator)}\nresolver: MEMORY\n"
                        f"resolver_preload: {{{self.account.name}: {said}}}\n")
        return str(file)

    def user(self):
        return User(self.account)

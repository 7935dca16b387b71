"""Which files hold keys or passwords, by their names.

Names are compared as the most careless file system would: without regard to case, to composed or decomposed
letters, or to characters that cannot be seen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase

SECRETS: tuple[str, ...] = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc"),
    *(".git-credentials", ".htpasswd", ".vault-token", ".dockercfg", "credentials.json", "secrets.toml"),
    *(
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.jks",
        "*.keystore",
        "*.kdbx",
    ),
)
"""Names of files that hold keys and passwords, as patterns."""
SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker")
_EXAMPLES = ("*.example", "*.sample", "*.template", "*.dist", "example.env")


def comparable(name: str) -> str:
    """A name as the most careless file system compares it.

    >>> comparable(".G\\u200bIT. ")
    '.git'
    """
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", seen).casefold()).rstrip(" .") or name


def holds_secrets(parts: Sequence[str]) -> bool:
    """Whether the name of a file, or a folder above it, says that it holds keys or passwords.

    >>> [holds_secrets((name,)) for name in (".env", ".ENV.local", ".env.example", "environment.md", "server.key")]
    [True, True, False, False, True]
    """
    names = [comparable(part) for part in parts]
    if not names:
        return False
    if any(name in SECRET_FOLDERS for name in names) or names[-2:] == [".git", "config"]:
        return True
    example = any(fnmatchcase(names[-1], pattern) for pattern in _EXAMPLES)
    return not example and any(fnmatchcase(names[-1], pattern) for pattern in SECRETS)

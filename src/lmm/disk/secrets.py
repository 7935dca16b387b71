"""Which files hold keys, passwords or what somebody typed, by their names; which variables hold keys.

Names are compared as the most careless file system would: without regard to case, to composed or decomposed
letters, or to characters that cannot be seen. The one list for all that reads files on somebody else's word: tools,
``<doc>``, imports, ingestion. To extend it, add a pattern to the group that it belongs to.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePath

SECRETS: dict[str, tuple[str, ...]] = {
    "variables": (".env", ".env.*", "*.env", ".envrc", ".Renviron", ".Renviron.*", ".Rprofile", ".pam_environment"),
    "keys": (
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*", "*.pem", "*.key", "*.ppk", "*.p8", "*.p12"),
        *("*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.keychain", "*.keychain-db", "*.agekey"),
        *("*.ovpn", "wallet.dat", ".vault_pass*", ".vault-password*"),
    ),
    "logins": (
        *(".netrc", ".netrc.*", "_netrc", ".authinfo", ".authinfo.*", ".git-credentials", ".htpasswd", ".htdigest"),
        *(".pgpass", "pgpass.conf", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".smbcredentials", ".fetchmailrc"),
        *(".msmtprc", ".mbsyncrc", "rclone.conf", ".s3cfg", ".boto", ".databrickscfg", "kaggle.json", ".vault-token"),
        *(".dockercfg", ".dockerconfigjson", "kubeconfig", "*.kubeconfig", ".snowsql/config", "huggingface/token"),
        *("credentials", "credentials.json", "credentials.toml", "credentials.y*ml", "credentials.csv"),
        *(".credentials.*", "secrets.toml", "secrets.json", "secrets.yml", "secrets.yaml", "client_secret*.json"),
        *("service-account*.json", ".codex/auth.json", ".claude.json"),
    ),
    "package managers": (
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".condarc", ".cargo/credentials*", ".gem/credentials"),
        *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", "nuget.config", "auth.json"),
    ),
    "infrastructure": ("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".terraformrc", "terraform.rc"),
    "histories": (
        *(".*_history", ".*_history-*", ".history", ".histfile", ".lesshst", ".viminfo", ".Rhistory", ".octave_hist"),
        *("fish_history", "repl_history.jl", "ConsoleHost_history.txt", ".ipython/*/history.sqlite"),
    ),
    "browsers": (
        *("logins.json", "key3.db", "key4.db", "cert8.db", "cert9.db", "signons.sqlite", "cookies.sqlite"),
        *("places.sqlite", "formhistory.sqlite", "Login Data", "Login Data For Account", "Web Data", "Cookies"),
        *("cookies.txt", "*.cookies"),
    ),
    "git": (".git/config",),
}
"""Names of files, as patterns; one with a slash is compared with the end of a path."""
SECRET_FOLDERS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".oci", ".kube", ".docker", ".config", ".password-store", ".pki"),
    *(".mozilla", ".thunderbird", ".terraform.d", ".databricks", ".step", ".electrum", "keyrings", "Keychains"),
    *("User Data", "Firefox/Profiles", "Google/Chrome", "Application Support"),
)
"""Folders of which nothing is anybody else's business; one with a slash is compared with two parts of a path."""
SECRET_VARIABLES = (
    *("*KEY*", "*TOKEN*", "*SECRET*", "*PASS*", "*CREDENTIAL*", "*AUTH*", "*COOKIE*"),
    *("PAT", "*_PAT", "DSN", "*_DSN", "*_DSN_*", "*_PWD", "*_PWD_*", "PIN", "*_PIN", "*_PIN_*", "*DATABASE_URL"),
)
"""Names of environment variables that hold one, as patterns."""
_HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "example.env", "*.pub")


def comparable(name: str) -> str:
    """A name as the most careless file system compares it.

    >>> comparable(".G\\u200bIT. ")
    '.git'
    """
    if name.isascii():
        return name.lower().rstrip(" .") or name
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", seen).casefold()).rstrip(" .") or name


def is_secret_file(path: str | PurePath) -> bool:
    """Whether the name of a file, or a folder above it, says that it holds keys, passwords or a history.

    >>> [is_secret_file(name) for name in (".env", ".ENV.local", ".env.example", "environment.md", "a/server.key")]
    [True, True, False, False, True]
    >>> [is_secret_file(name) for name in (".cargo/credentials.toml", ".config/gh/hosts.yml", "id_rsa.pub")]
    [True, True, False]
    """
    name = "/" + "/".join(comparable(part) for part in PurePath(path).parts)
    if _FOLDERS.search(f"{name}/"):
        return True
    return _FILES.search(name) is not None and _EXAMPLES.search(name) is None


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable holds a key or a password, by its name.

    >>> [is_secret_variable(name) for name in ("OPENAI_API_KEY", "PGPASSWORD", "github_token", "LANG", "HOME")]
    [True, True, True, False, False]
    """
    return any(fnmatchcase(name.upper(), pattern) for pattern in SECRET_VARIABLES)


def _pattern(names: Iterable[str], end: str) -> re.Pattern[str]:
    """What finds one of these names at the end of a path, or with ``end="/"`` anywhere on the way."""
    parts = (re.escape(name.casefold()).replace(r"\*", "[^/]*") for name in names)
    return re.compile(f"/(?:{'|'.join(parts)}){end}", re.DOTALL)


_FILES = _pattern(itertools.chain.from_iterable(SECRETS.values()), r"\Z")
_FOLDERS = _pattern(SECRET_FOLDERS, "/")
_EXAMPLES = _pattern(_HARMLESS, r"\Z")

"""Match names of files: patterns of shells and ``.gitignore``, and names that mark a file as a secret.

Patterns have ``*``, ``?``, ``[a-z]``, ``{a,b}``, and ``**`` for folders. Matching takes time linear in the
length of each name, for any pattern.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from pathlib import PurePath

_MOST_ALTERNATIVES = 100
_SET = re.compile(r"(\[!?+\]?+[^\]]*\])|\[")


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern to match paths.

    >>> Glob.of("**/*.{md,txt}").fits(("a", "b", "c.md")), Glob.of("src/*.py").fits(("src", "a", "b.py"))
    (True, False)
    >>> Glob.of("*.md").fits(("a", "b", "c.md"))
    True
    """

    alternatives: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, pattern: str) -> Glob:
        """Compile a pattern; one without a slash is compared with the last part of a path only."""
        patterns = [one.strip("/") for one in _braces(pattern.removeprefix("./"))]
        return cls(tuple(tuple(one.split("/")) if "/" in one else ("**", one) for one in patterns))

    def fits(self, parts: Sequence[str]) -> bool:
        """Return whether a path, given by its parts, matches."""
        return any(fits_parts(pattern, parts) for pattern in self.alternatives)


def fits_parts(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern, where ``**`` is any number of folders."""
    # Which prefixes of the path fit the part of the pattern that has been read.
    fitting = {0}
    for wanted in pattern:
        if wanted == "**":
            fitting = set(range(min(fitting), len(parts) + 1))
        else:
            fitting = {at + 1 for at in fitting if at < len(parts) and _part(wanted).match(parts[at])}
        if not fitting:
            return False
    return len(parts) in fitting


@lru_cache(maxsize=2000)
def _part(pattern: str) -> re.Pattern[str]:
    plain = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], pattern)
    plain = re.sub(r"\*+", "*", plain)
    # `translate` would search the rest of the pattern for the end of each set that has none.
    end = plain.rfind("]") + 1
    sets = _SET.sub(lambda match: match[1] or "[[]", plain[:end])
    return re.compile(translate(sets + plain[end:].replace("[", "[[]")))


def _braces(pattern: str) -> list[str]:
    """Expand the braces of a pattern into its alternatives.

    >>> _braces("a.{b,c}{d,}")
    ['a.bd', 'a.b', 'a.cd', 'a.c']
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= _MOST_ALTERNATIVES:
        one = waiting.pop(0)
        if found := re.search(r"\{([^{}]*,[^{}]*)\}", one):
            waiting[:0] = [one[: found.start()] + part + one[found.end() :] for part in found[1].split(",")]
        else:
            done.append(one)
    return done + waiting


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of a ``.gitignore``; `kept` is whether it re-includes what earlier lines ignore."""

    pattern: tuple[str, ...]
    kept: bool = False
    folders_only: bool = False


def parse_ignore(text: str) -> tuple[IgnoreRule, ...]:
    """Parse the rules of a ``.gitignore``.

    >>> [rule.pattern for rule in parse_ignore("# built\\n/dist/\\n*.log\\n!a/keep.log\\n")]
    [('dist',), ('**', '*.log'), ('a', 'keep.log')]
    """
    rules = []
    for line in text.splitlines():
        pattern = re.sub(r"(?:(?<![\\\s])|(?<=\\\s))\s+$", "", line)
        kept = pattern.startswith("!")
        pattern = pattern[1:] if kept else pattern
        parts = tuple(filter(None, pattern.split("/")))
        if not parts or pattern.startswith("#"):
            continue
        anchored = pattern.startswith("/") or len(parts) > 1
        if parts[-1] == "**":  # what is in the folder, not the folder
            parts = (*parts, "*")
        rules.append(IgnoreRule(parts if anchored else ("**", *parts), kept, pattern.endswith("/")))
    return tuple(rules)


def is_ignored(layers: Sequence[tuple[int, tuple[IgnoreRule, ...]]], parts: Sequence[str], is_folder: bool) -> bool:
    """Return whether a path is ignored; of all rules that match, the last one counts.

    `layers` are the rules of the folders above, outermost first, each with how many of `parts` lead to it.
    """
    ignored = False
    for depth, rules in layers:
        inside = parts[depth:]
        for rule in rules:
            if (is_folder or not rule.folders_only) and rule.kept == ignored and fits_parts(rule.pattern, inside):
                ignored = not rule.kept
    return ignored


# -- names of secrets: keys, passwords, histories; variables that contain keys ---------------------
# Names are compared as the most careless file system would: without regard to case, to composed or decomposed
# letters, or to characters that cannot be seen. The one list for all that reads files on somebody else's word: tools,
# ``<doc>``, imports, ingestion. To extend it, add a pattern to the group that it belongs to.


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
"""Folders whose whole content is secret; one with a slash is compared with two parts of a path."""
SECRET_VARIABLES = (
    *("*KEY*", "*TOKEN*", "*SECRET*", "*PASS*", "*CREDENTIAL*", "*AUTH*", "*COOKIE*"),
    *("PAT", "*_PAT", "DSN", "*_DSN", "*_DSN_*", "*_PWD", "*_PWD_*", "PIN", "*_PIN", "*_PIN_*", "*DATABASE_URL"),
)
"""Names of environment variables that hold one, as patterns."""
_HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "example.env", "*.pub")


def comparable(name: str) -> str:
    """Normalise a name as the most lenient file system compares it.

    >>> comparable(".G\\u200bIT. ")
    '.git'
    """
    if name.isascii():
        return name.lower().rstrip(" .") or name
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", seen).casefold()).rstrip(" .") or name


def is_secret_file(path: str | PurePath) -> bool:
    """Return whether the name of a file, or of a folder above it, indicates keys, passwords or a history.

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
    """Return whether the name of an environment variable indicates a key or a password.

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

"""Names of files and variables that hold keys, passwords or what somebody typed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePath

import pytest

from lmm.disk.folder import is_document
from lmm.disk.names import SECRETS, is_secret_file, is_secret_variable

_SECRET = """
.env .env.production prod.env .envrc .Renviron .Renviron.local .Rprofile id_rsa id_rsa_work id_dsa id_ecdsa
id_ecdsa_sk id_ed25519 id_ed25519_sk cert.pem Server.KEY login.ppk AuthKey.p8 a.p12 a.pfx trust.jks release.keystore
passwords.kdbx login.keychain-db vpn.ovpn wallet.dat .vault_pass.txt .netrc _netrc .netrc.gpg .authinfo
.git-credentials .htpasswd .pgpass pgpass.conf .my.cnf .mylogin.cnf .smbcredentials rclone.conf
.config/rclone/rclone.conf .s3cfg .boto .databrickscfg kaggle.json .kaggle/kaggle.json .vault-token kubeconfig
prod.kubeconfig .kube/config .docker/config.json .dockercfg .snowsql/config .cache/huggingface/token credentials
credentials.json .aws/credentials .claude/.credentials.json .codex/auth.json secrets.toml secrets.yaml
.streamlit/secrets.toml client_secret_1.json service-account.json service-account-prod.json .npmrc .yarnrc.yml
.pypirc .condarc .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml
.m2/settings-security.xml .gradle/gradle.properties NuGet.Config auth.json .composer/auth.json terraform.tfstate
terraform.tfstate.backup prod.tfvars .terraformrc .terraform.d/credentials.tfrc.json .bash_history .zsh_history
.sh_history .psql_history .python_history .mysql_history .sqlite_history .node_repl_history .irb_history
.rediscli_history .bash_history-01234.tmp .lesshst .viminfo .Rhistory .histfile fish_history
.julia/logs/repl_history.jl PSReadLine/ConsoleHost_history.txt .ipython/profile_default/history.sqlite
.mozilla/firefox/x.default/prefs.js x.default/logins.json x.default/key4.db x.default/cookies.sqlite Default/Cookies
cookies.txt .thunderbird/x/prefs.js .config/gh/hosts.yml .config/hub .config/anything/at/all .ssh/config
.ssh/known_hosts .gnupg/pubring.kbx .password-store/mail.gpg .azure/accessTokens.json .oci/config
Library/Keychains/login.keychain .local/share/keyrings/login.keyring .git/config a/b/.GIT/Config .BASH_HISTORY
ID_ED25519_SK .ssh/deep/er/x .pam_environment id_xmss a.pkcs12 a.kdb login.keychain key.agekey .vault-password
.authinfo.gpg .htdigest .pg_service.conf .fetchmailrc .msmtprc .mbsyncrc .dockerconfigjson credentials.toml
credentials.yaml credentials.csv secrets.json secrets.yml .claude.json .yarnrc prod.tfvars.json terraform.rc
.history .octave_hist key3.db cert8.db cert9.db signons.sqlite places.sqlite formhistory.sqlite site.cookies
"""
SECRET = [*_SECRET.split(), "Login Data", "Login Data For Account", "Web Data", "Firefox/Profiles/x/y", "User Data/x"]
_HARMLESS = """
README.md notes.md key.md keys.md environment.md environment.yml env .env.example .env.sample prod.env.template
id_rsa.pub id_ed25519_sk.pub history.md history bash_history config config.toml config.json settings.xml hosts.yml
credentials.md authentication.md secrets.md passwords.md cookies.md token config/gh/hosts.yml git/config .gitignore
.github/workflows/ci.yml lectures/the-private-key.md terraform.tf main.tfvars.example .lmm/store/manifest.json
.chatmd/expansions.jsonl
"""
HARMLESS = _HARMLESS.split()


def test_secret() -> None:
    """Whatever its case, and in whatever folder."""
    tried = [form for name in SECRET for form in (name, f"home/user/{name}", name.upper())]
    assert [name for name in tried if not is_secret_file(name)] == []


def test_harmless() -> None:
    """Documents about secrets, public keys and examples are none."""
    assert [name for name in (*HARMLESS, "") if is_secret_file(name)] == []


def test_every_pattern_is_tried() -> None:
    """Who adds a pattern adds a name that it is for."""
    names = [PurePath(name) for name in SECRET]
    patterns = [pattern for group in SECRETS.values() for pattern in group]
    untried = [one for one in patterns if not any(fits(one, name) for name in names)]
    assert not untried


def fits(pattern: str, name: PurePath) -> bool:
    """Whether a path ends as a pattern says."""
    wanted = pattern.casefold().split("/")
    parts = [part.casefold() for part in name.parts][-len(wanted) :]
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "db_password", "SENTRY_DSN",
             "DATABASE_URL", "GH_PAT", "db_pwd", "CARD_PIN", "DSN", "NPM_CONFIG_AUTH", "GOOGLE_APPLICATION_CREDENTIALS"]
)  # fmt: skip
def test_variables(name: str) -> None:
    """Names of variables that hold keys; those that every program gets do not."""
    assert is_secret_variable(name)
    assert not any(map(is_secret_variable, ("PATH", "PWD", "EDITOR", "HOME", "LANG", "LC_ALL", "TERM", "USER", "TZ")))


def test_secrets_are_no_documents() -> None:
    """A document in a folder that holds secrets is not ingested from there."""
    assert not is_document(PurePath("keyrings/notes.md"))
    assert not is_document(PurePath("id_rsa.md"))
    assert is_document(PurePath("keys/notes.md"))

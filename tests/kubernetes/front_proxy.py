"""An API server that passes requests on to aggregated APIs: its certificates, and its flags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.kubernetes.certificates import Authority, create_authority, issue

NAME = "front-proxy-client"
"""Name in the front proxy's certificate; others of the same authority are nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxyFiles:
    """The authority, and the front proxy's certificate and key."""

    authority: Authority
    certificate: Path
    key: Path

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make them in a folder."""
        authority = create_authority(folder, name="front-proxy-ca")
        certificate, key = issue(authority, folder=folder, name=NAME)
        return cls(authority=authority, certificate=certificate, key=key)

    @property
    def apiserver_args(self) -> tuple[str, ...]:
        """Flags of kube-apiserver."""
        return (
            f"--requestheader-client-ca-file={self.authority.certificate_file}",
            f"--requestheader-allowed-names={NAME}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.certificate}",
            f"--proxy-client-key-file={self.key}",
        )

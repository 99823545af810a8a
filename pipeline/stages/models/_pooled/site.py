"""What every stage says that gives away masked sums of a site's rows: which site, of which study, and the secrets that it shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field, SecretStr

from pipeline.errors import StageError
from pipeline.stage import Whole
from pipeline.stages.models._pooled.masks import Agreed, Pads

LEAST_SECRET = 32


class OfSite(Whole):
    """A stage that one site of a study runs on its own rows."""

    site: str = Field(min_length=1, description="This site's name.")
    sites: tuple[str, ...] = Field(description="All sites of the study, at every site in the same order.")
    study: str = Field(min_length=1, description="Name of this round of sums, used once.")
    secrets: Mapping[str, SecretStr] = Field(
        exclude=True,
        repr=False,
        description="By every other site the secret shared with it, 32 characters or more that nobody can guess (openssl rand -hex 32).",
    )

    def check_sites(self) -> None:
        """Raise StageError where sites and secrets do not fit one another; no text has a secret."""
        if self.site not in self.sites:
            raise StageError(f"{self.site!r} is not among the sites {', '.join(self.sites)}", key="site")
        if len(self.sites) < 2 or len({*self.sites}) < len(self.sites):
            raise StageError("two sites or more, each once: with one there is nobody to hide its sums from", key="sites")
        others = [name for name in self.sites if name != self.site]
        for name in others:
            if name not in self.secrets:
                raise StageError(f"there is no secret shared with site {name!r}. Give one for every other site.", key="secrets")
            if (length := len(self.secrets[name].get_secret_value())) < LEAST_SECRET:
                text = f"it has {length} characters and could be guessed; at least {LEAST_SECRET} are needed (openssl rand -hex 32)"
                raise StageError(text, key=f"secrets.{name}")
        if odd := [name for name in self.secrets if name not in others]:
            raise StageError(f"{odd[0]!r} is no other site of the study. The others: {', '.join(others)}.", key="secrets")
        if len({secret.get_secret_value() for secret in self.secrets.values()}) < len(self.secrets):
            raise StageError("two sites have the same secret, so that each could read what this site shares with the other", key="secrets")

    def bare(self) -> Self:
        """The stage without its secrets, as its tasks have it."""
        return self.model_copy(update={"secrets": {}})

    def pads(self, agreed: Agreed) -> Pads:
        """What masks are derived from; the secrets stay here, tasks get this."""
        return Pads.of(agreed, self.site, {site: secret.get_secret_value() for site, secret in self.secrets.items()})

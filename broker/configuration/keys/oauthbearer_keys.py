"""The keys of OAUTHBEARER (KIP-768): where the issuer's keys are, and what a token has to say."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import integer, long, matching, mechanism_setting, names, setting, string

_CLAIM = matching(r"\S(.*\S)?", "the name of a claim")


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class OAuthBearerSettings:
    """Settings of OAUTHBEARER on one SASL listener, or of the broker where a listener has none."""

    oauthbearer_jwks_endpoint_url: str | None = mechanism_setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        string,
        None,
        "The JSON Web Key Set with the issuer's public keys, which OAUTHBEARER needs: file:///path, or a URL of "
        "sordini.oauthbearer.allowed.urls.",
    )
    oauthbearer_jwks_endpoint_refresh_ms: int = mechanism_setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        long(1),
        3600000,
        "How often the key set is fetched from its URL. A file is read again within a second of its change.",
    )
    oauthbearer_jwks_endpoint_retry_backoff_ms: int = mechanism_setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        long(1),
        100,
        "How soon it is fetched again after a failure; doubled with each further failure.",
    )
    oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = mechanism_setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        long(1),
        10000,
        "The longest wait after a failure.",
    )
    oauthbearer_expected_audience: str | None = mechanism_setting(
        "sasl.oauthbearer.expected.audience",
        names,
        None,
        "Audiences of which a token must name one (aud); without it a token that names any is refused.",
    )
    oauthbearer_expected_issuer: str | None = mechanism_setting(
        "sasl.oauthbearer.expected.issuer",
        string,
        None,
        "The issuer that a token must name (iss); without it any.",
    )
    oauthbearer_clock_skew_seconds: int = mechanism_setting(
        "sasl.oauthbearer.clock.skew.seconds",
        integer(0),
        30,
        "By how much the issuer's clock and the broker's may differ.",
    )
    oauthbearer_sub_claim_name: str = mechanism_setting(
        "sasl.oauthbearer.sub.claim.name",
        _CLAIM,
        "sub",
        "The claim of a token that is the name of its principal.",
    )
    oauthbearer_scope_claim_name: str = mechanism_setting(
        "sasl.oauthbearer.scope.claim.name",
        _CLAIM,
        "scope",
        "The claim with the scope: text or a list of texts, where a token has it. Access control does not use it.",
    )
    oauthbearer_allowed_urls: str = setting(
        "sordini.oauthbearer.allowed.urls",
        names,
        "",
        "The http and https URLs from which this broker may fetch key sets; compared as text.",
    )

"""Why a connection to Temporal does not come about, in words with a way out.

The SDK says it in Rust's: kinds of errors are told by what stands in them. Nothing of the text is
passed on, since whoever refuses a key may quote it.
"""

from enum import Enum

from perdure.runs.errors import ConfigurationError, EngineUnavailable, PerdureError


class Refused(Enum):
    """Why not: what the SDK's text has in it, a sentence, and the way out."""

    KEY = (
        ("Unauthenticated",),
        "{0} does not let us in: the API key is missing, wrong or expired.",
        "Check TEMPORAL_API_KEY, or api_key in the profile.",
    )
    RIGHTS = (
        ("PermissionDenied",),
        "{0} does not let us in: the API key, or the client certificate, lacks the rights.",
        "Check TEMPORAL_API_KEY, TEMPORAL_NAMESPACE, and what the key may do.",
    )
    UNKNOWN_CA = (
        ("UnknownIssuer",),
        "{0} shows a certificate of an authority that is not trusted here.",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH names the right authority's certificate.",
    )
    OTHER_NAME = (
        ("NotValidForName",),
        "{0} shows a certificate for another name.",
        "TEMPORAL_TLS_SERVER_NAME is the name that it is for.",
    )
    EXPIRED = (
        ("Expired", "NotValidYet"),
        "{0} shows a certificate that is not valid now.",
        "Renew it, or set this machine's clock.",
    )
    BAD_CERTIFICATE = (
        ("InvalidCertificate",),
        "{0} shows a certificate that can't be used.",
        "Check the server's certificate, and TEMPORAL_TLS_SERVER_CA_CERT_PATH.",
    )
    OWN_FILES = (
        ("ParseError", "client cert", "private key", "NoCertificatesPresented", "KeyMismatch"),
        "The client certificate for {0}, or its key, can't be used.",
        "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH name a pair in PEM.",
    )
    NO_TLS = (
        ("InvalidContentType", "InvalidMessage"),
        "What listens at {0} does not speak TLS.",
        "TEMPORAL_TLS=false, and no API key, for a server without it; or check TEMPORAL_ADDRESS.",
    )
    HUNG_UP = (
        ("hyper::Error", "AlertReceived"),
        "{0} hangs up during the TLS handshake: most likely it wants a client certificate, or "
        "another one.",
        "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH name it.",
    )
    NO_PLAIN = (
        (),
        "What listens at {0} is no Temporal server without TLS.",
        "TEMPORAL_TLS=true if it is one with TLS; or check TEMPORAL_ADDRESS.",
    )
    ABSENT = (
        (),
        "No Temporal server answers at {0}.",
        "Start one with `perdure dev`, or set TEMPORAL_ADDRESS.",
    )

    @classmethod
    def told_by(cls, text: str, *, tls: bool) -> "Refused":
        """Return why not, from what the SDK says."""
        for reason in cls:
            if any(sign in text for sign in reason.value[0]):
                return reason if tls or reason is not cls.HUNG_UP else cls.ABSENT
        return cls.ABSENT


def refused(reason: Refused, where: str) -> PerdureError:
    """Return the error to raise.

    Args:
        reason: Why not.
        where: The address.
    """
    _, sentence, hint = reason.value
    gone = reason in (Refused.ABSENT, Refused.NO_PLAIN)
    kind = EngineUnavailable if gone else ConfigurationError
    return kind(sentence.format(where), hint=hint)

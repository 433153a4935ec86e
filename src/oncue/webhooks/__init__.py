"""Webhooks. For receivers: `verify` says whether a request is a genuine delivery, and `sign` makes one for tests.

    from oncue.webhooks import WebhookVerificationError, verify

    verify(request.body, request.headers, "whsec_…")    # raises WebhookVerificationError

The scheme is Standard Webhooks, so that any of its libraries does as well.
"""

from __future__ import annotations

from oncue.errors import WebhookVerificationError
from oncue.webhooks.signing import new_secret, sign, verify

__all__ = ["WebhookVerificationError", "new_secret", "sign", "verify"]

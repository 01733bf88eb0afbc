"""JSON Schema 2020-12 made ready: nothing is fetched, patterns are linear, and values stay out of messages.

Needs `jsonschema-rs`, which the extras `authority` and `pipeline` bring.
"""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs


def validator_of(schema: Mapping[str, Any], keywords: Mapping[str, type] | None = None) -> Any:
    """A validator of `jsonschema_rs`; `ValueError` for what is no usable schema.

    `keywords` are classes of its protocol, each in place of the keyword of that name.
    """
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema),
            offline=True,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            mask="the value",
            keywords=dict(keywords or {}),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        raise ValueError(getattr(error, "message", None) or type(error).__name__) from None

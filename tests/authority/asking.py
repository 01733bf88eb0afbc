"""What tests ask and how they read a refusal."""

from collections.abc import Callable
from typing import Any

import pytest

from preaction.errors import AuthorityError

REPLY = {"body": "Here is your answer.\nThe billing team\n"}


def evidence(topic: Any = "billing", amount: Any = 20.5) -> dict[str, Any]:
    return {"topic": {"value": topic, "source": "human"}, "amount": {"value": amount, "source": "erp"}}


def refusal(question: Callable[..., object], *args: Any, **options: Any) -> tuple[int | None, dict[str, str]]:
    """The status of a refusal, and what it says by place."""
    with pytest.raises(AuthorityError) as caught:
        question(*args, **options)
    assert caught.value.kind == "status"
    assert caught.value.problem is not None
    errors: Any = caught.value.problem["errors"]
    return caught.value.status, {each["pointer"]: each["detail"] for each in errors}

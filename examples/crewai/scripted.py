"""A model that is a script: it replies too early, then does it right."""

import json
import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")

from crewai import BaseLLM
from crewai.events.utils.console_formatter import set_suppress_console_output

set_suppress_console_output(True)  # its panels come from another thread, and would break into the example's lines

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


class Model(BaseLLM):
    def supports_function_calling(self):
        return True

    def call(self, messages, *_, **__):
        done = sum(message["role"] == "tool" for message in messages)
        return [
            {"id": f"call_{done}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for name, arguments in CALLS[done : done + 1]
        ] or "Done."

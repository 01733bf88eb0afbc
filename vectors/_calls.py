"""The table of `calls/`: argument texts, and by hand what each is: its canonical call, or the code of its refusal.

`canonical` is written out as RFC 8785 has it, by hand; its SHA-256 is the digest.
"""

from typing import Any

BIG = 2**53

DIGESTS: dict[str, tuple[str, str]] = {
    "no arguments": ("{}", '{"arguments":{},"tool":"t"}'),
    "one field": ('{"id":"HC-1201"}', '{"arguments":{"id":"HC-1201"},"tool":"t"}'),
    "blanks and line breaks don't count": ('{ "id" :\n\t"HC-1201" }', '{"arguments":{"id":"HC-1201"},"tool":"t"}'),
    "the order of names doesn't count": ('{"b":1,"a":2}', '{"arguments":{"a":2,"b":1},"tool":"t"}'),
    "names are ordered by UTF-16 code units": (
        r'{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3}',
        '{"arguments":{"\u20ac":3,"\U0001f600":2,"\ufb33":1},"tool":"t"}',
    ),
    "names differ by their capitals": ('{"ID":"1"}', '{"arguments":{"ID":"1"},"tool":"t"}'),
    "the order of a list counts": ('{"to":["b","a"]}', '{"arguments":{"to":["b","a"]},"tool":"t"}'),
    "an escape is the character": (r'{"\u0069d":"\u0041\/"}', '{"arguments":{"id":"A/"},"tool":"t"}'),
    "an escaped pair is one character": (r'{"b":"\ud83c\udf78"}', '{"arguments":{"b":"\U0001f378"},"tool":"t"}'),
    "control characters are escaped the short way": (
        r'{"b":"\u0008\u0009\u000a\u000c\u000d\u0001\u001f\u007f\"\\"}',
        '{"arguments":{"b":"\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\\"\\\\"},"tool":"t"}',
    ),
    "accents are not normalised: composed": (r'{"b":"\u00e9"}', '{"arguments":{"b":"\u00e9"},"tool":"t"}'),
    "accents are not normalised: decomposed": (r'{"b":"e\u0301"}', '{"arguments":{"b":"e\u0301"},"tool":"t"}'),
    "a Kelvin sign beside a k is another name": (
        r'{"k":1,"\u212a":2}',
        '{"arguments":{"k":1,"\u212a":2},"tool":"t"}',
    ),
    "literals": ('{"a":[true,false,null]}', '{"arguments":{"a":[true,false,null]},"tool":"t"}'),
    "numbers are written as RFC 8785 has them": (
        '{"a":[1.0,1e0,-0.0,1.5e-7,0.000001,1e21,123456789012345680000.0]}',
        '{"arguments":{"a":[1,1,0,1.5e-7,0.000001,1e+21,123456789012345680000]},"tool":"t"}',
    ),
    "the largest integer with a canonical form": (
        f'{{"n":[{BIG - 1},-{BIG - 1}]}}',
        f'{{"arguments":{{"n":[{BIG - 1},-{BIG - 1}]}},"tool":"t"}}',
    ),
    "an integer beyond 2^53 enters as its digits": (
        f'{{"n":{BIG}}}',
        f'{{"arguments":{{"n":"{BIG}"}},"integers":["/n"],"tool":"t"}}',
    ),
    "its digits as a text are another call": (
        f'{{"n":"{BIG}"}}',
        f'{{"arguments":{{"n":"{BIG}"}},"tool":"t"}}',
    ),
    "the next integer is another call": (
        f'{{"n":{BIG + 1}}}',
        f'{{"arguments":{{"n":"{BIG + 1}"}},"integers":["/n"],"tool":"t"}}',
    ),
    "a float of that size is none of these": (
        f'{{"n":{BIG}.0}}',
        f'{{"arguments":{{"n":{BIG}}},"tool":"t"}}',
    ),
    "places of integers are ordered": (
        f'{{"b":{BIG},"a":[0,-{BIG}]}}',
        f'{{"arguments":{{"a":[0,"-{BIG}"],"b":"{BIG}"}},"integers":["/a/1","/b"],"tool":"t"}}',
    ),
    "places of integers are JSON pointers": (
        f'{{"a/b":{BIG},"a":{{"b":"{BIG}","~":{BIG}}}}}',
        f'{{"arguments":{{"a":{{"b":"{BIG}","~":"{BIG}"}},"a/b":"{BIG}"}},"integers":["/a/~0","/a~1b"],"tool":"t"}}',
    ),
    "32 deep": ('{"a":' + "[" * 31 + "]" * 31 + "}", '{"arguments":{"a":' + "[" * 31 + "]" * 31 + '},"tool":"t"}'),
}

REFUSALS: dict[str, tuple[str, str]] = {
    "nothing": ("", "malformed_call"),
    "a list": ("[]", "malformed_call"),
    "a text": ('"x"', "malformed_call"),
    "null": ("null", "malformed_call"),
    "an object in a text: decode once": (r'"{\"id\":\"HC-1201\"}"', "malformed_call"),
    "cut off": ('{"id":"HC-1201"', "malformed_call"),
    "a comma too many": ('{"id":"HC-1201",}', "malformed_call"),
    "two objects": ("{}{}", "malformed_call"),
    "a comment": ("{} // none", "malformed_call"),
    "a byte order mark": ("\ufeff{}", "malformed_call"),
    "single quotes": ("{'id':1}", "malformed_call"),
    "NaN": ('{"n":NaN}', "malformed_call"),
    "Infinity": ('{"n":-Infinity}', "malformed_call"),
    "a number that overflows": ('{"n":1e400}', "malformed_call"),
    "a leading zero": ('{"n":007}', "malformed_call"),
    "an integer too long to be written out": ('{"n":' + "9" * 5000 + "}", "malformed_call"),
    "a raw control character": ('{"b":"a\nb"}', "malformed_call"),
    "a lone surrogate in a text": (r'{"b":"\ud800"}', "malformed_call"),
    "a lone surrogate in a name": (r'{"\udc00":1}', "malformed_call"),
    "surrogates the wrong way round": (r'{"b":"\udf78\ud83c"}', "malformed_call"),
    "a name twice": ('{"id":"1","id":"2"}', "malformed_call"),
    "a name twice, once with an escape": (r'{"\u0069d":"1","id":"2"}', "malformed_call"),
    "a name twice, deep down": ('{"a":[{"b":{"c":1,"c":1}}]}', "malformed_call"),
    "33 deep": ('{"a":' + "[" * 32 + "]" * 32 + "}", "malformed_call"),
    "7000 deep": ('{"a":' + "[" * 7000 + "]" * 7000 + "}", "malformed_call"),
    "a name twice but for its capitals": ('{"to":["a@acme.example"],"To":["b@acme.example"]}', "field_repeated"),
    "the same, deep down": ('{"a":[{"b":{"id":1,"ID":1}}]}', "field_repeated"),
    "the same, with an escape": (r'{"\u0054o":1,"to":1}', "field_repeated"),
}


def files(digest: Any) -> dict[str, Any]:
    """The files of `calls/`; `digest` makes `sha-256:…` of a text."""
    return {
        "digests.json": {
            "title": "Texts of arguments and the digest of the call",
            "vectors": [
                {
                    "name": name,
                    "tool": "t",
                    "arguments": text,
                    "expect": {"canonical": canonical, "digest": digest(canonical)},
                }
                for name, (text, canonical) in DIGESTS.items()
            ],
        },
        "refusals.json": {
            "title": "Texts of arguments that make no call",
            "vectors": [
                {"name": name, "tool": "t", "arguments": text, "expect": {"code": code}}
                for name, (text, code) in REFUSALS.items()
            ],
        },
    }
